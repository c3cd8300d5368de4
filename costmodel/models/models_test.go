package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/network"
)

func build(t require.TestingT, m Model) network.Network {
	n, err := m.Network()
	require.NoError(t, err)
	return n
}

func preset(t require.TestingT, name string) network.Network { return build(t, Model{Preset: name}) }

// Counts of the published checkpoints (Hugging Face) and of the two VGG16 with ten
// classes.
func TestParameters(t *testing.T) {
	for _, c := range []struct {
		preset     string
		parameters int64
		tensors    int
	}{
		{"gpt2", 124_439_808, 148},
		{"gpt2-medium", 354_823_168, 292},
		{"gpt2-large", 774_030_080, 436},
		{"gpt2-xl", 1_557_611_200, 580},
		{"tinyllama-1.1b", 1_100_048_384, 201},
		{"llama2-7b", 6_738_415_616, 291},
		{"llama2-13b", 13_015_864_320, 363},
		{"llama2-70b", 68_976_648_192, 723},
		{"llama3-8b", 8_030_261_248, 291},
		{"llama3-70b", 70_553_706_496, 723},
		{"mistral-7b", 7_241_732_096, 291},
		{"mixtral-8x7b", 46_702_792_704, 995},
		{"vgg16", 134_301_514, 32},
		{"vgg16-pipeline", 33_638_218, 32},
		{"mlp", 8 * (1024*1024 + 1024), 16},
	} {
		t.Run(c.preset, func(t *testing.T) {
			n := preset(t, c.preset)
			assert.Equal(t, c.parameters, n.Parameters())
			assert.Len(t, n.ParameterTensors(), c.tensors)
		})
	}
}

// Rounded counts of Brown et al. 2020, table 2.1, and of Narayanan et al. 2021,
// table 1; of the 22B model that of Korthikanti et al. 2022.
func TestRoundedParameters(t *testing.T) {
	for name, published := range map[string]float64{
		"gpt3-small": 125e6, "gpt3-medium": 350e6, "gpt3-large": 760e6, "gpt3-xl": 1.3e9,
		"gpt3-2.7b": 2.7e9, "gpt3-6.7b": 6.7e9, "gpt3-13b": 13e9, "gpt3-175b": 175e9,
		"megatron-22b": 22e9, "megatron-175b": 174.6e9, "megatron-530b": 529.6e9, "megatron-1t": 1008e9,
	} {
		assert.InEpsilon(t, published, preset(t, name).Parameters(), 0.02, name)
	}
}

func TestGPT2Layers(t *testing.T) {
	n := preset(t, "gpt2")
	require.Len(t, n.Layers, 15)
	assert.Equal(t, 1024, n.TokensPerSample)
	assert.Equal(t, []string{"embed", "h.0", "h.11", "ln_f", "head"},
		[]string{n.Layers[0].Name, n.Layers[1].Name, n.Layers[12].Name, n.Layers[13].Name, n.Layers[14].Name})
	for _, block := range n.Layers[1:13] {
		assert.EqualValues(t, 7_087_872, block.Parameters())
		assert.Len(t, block.Params, 12)
	}
	head := n.Layers[14]
	assert.Empty(t, head.Params)
	assert.Equal(t, []network.Tensor{n.Layers[0].Params[0]}, head.Tied)
	assert.Equal(t, "wte.weight", head.Tied[0].Name)
}

// Forward at sequence 128: 174.6 MFLOP a token in the blocks, 77.2 in the head.
func TestGPT2ForwardFLOPs(t *testing.T) {
	n := build(t, Model{Preset: "gpt2", SequenceLength: 128})
	var blocks int64
	for _, l := range n.Layers[1:13] {
		blocks += int64(l.FLOPs(network.Forward))
	}
	assert.EqualValues(t, 128*12*(24*768*768+4*128*768), blocks)
	assert.EqualValues(t, 128*2*768*50257, int64(n.Layers[14].FLOPs(network.Forward)))
	assert.InDelta(t, 174.6, float64(blocks)/128e6, 0.05)
	assert.InDelta(t, 77.2, float64(n.Layers[14].FLOPs(network.Forward))/128e6, 0.05)
	assert.InDelta(t, 251.8, float64(n.FLOPs(network.Forward))/128e6, 0.05)
}

func drawGPT(t *rapid.T) Model {
	heads := rapid.IntRange(1, 16).Draw(t, "heads")
	return Model{
		Family: "gpt", Heads: heads, Hidden: heads * rapid.IntRange(1, 64).Draw(t, "head_dim"),
		Layers: rapid.IntRange(1, 6).Draw(t, "layers"), Vocab: rapid.IntRange(1, 1000).Draw(t, "vocab"),
		SequenceLength: rapid.IntRange(1, 300).Draw(t, "sequence_length"),
	}
}

// The forward of a block per sample is 24sh²+4s²h and of the head 2shV
// (Narayanan et al. 2021, appendix). Backward splits into I = 24sh²+8s²h and
// W = 24sh² (Qi et al. 2023, zero bubble, table 1).
func TestPublishedFLOPs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawGPT(t)
		n := build(t, m)
		s, h, v := int64(m.SequenceLength), int64(m.Hidden), int64(m.Vocab)
		for _, l := range n.Layers[1 : 1+m.Layers] {
			assert.Equal(t, 24*s*h*h+4*s*s*h, int64(l.FLOPs(network.Forward)))
			assert.Equal(t, 24*s*h*h+8*s*s*h, int64(l.FLOPs(network.InputGradient)))
			assert.Equal(t, 24*s*h*h, int64(l.FLOPs(network.WeightGradient)))
		}
		assert.EqualValues(t, 2*s*h*v, n.Layers[len(n.Layers)-1].FLOPs(network.Forward))
		assert.Equal(t, 12*h*h+13*h, n.Layers[1].Parameters())
	})
}

// Llama 2: 2 FLOPs per parameter of the products and token, and the scores.
func TestLlamaFLOPs(t *testing.T) {
	n := build(t, Model{Preset: "llama2-7b", SequenceLength: 2048})
	const s, h, f, v = 2048, 4096, 11008, 32000
	assert.EqualValues(t, 32*(2*s*(4*h*h+3*h*f)+4*s*s*h)+2*s*h*v, int64(n.FLOPs(network.Forward)))
}

func TestChain(t *testing.T) {
	for _, p := range Presets() {
		n := preset(t, p.Name)
		var parameters, flops int64
		names := map[string]bool{}
		for i, l := range n.Layers {
			if i > 0 {
				assert.Equal(t, n.Layers[i-1].Output, l.Input, "%s %s", p.Name, l.Name)
			}
			assert.False(t, names[l.Name], "%s %s", p.Name, l.Name)
			names[l.Name] = true
			parameters += l.Parameters()
			flops += int64(l.FLOPs(network.Forward)) + int64(l.FLOPs(network.InputGradient)) + int64(l.FLOPs(network.WeightGradient))
		}
		assert.Equal(t, parameters, n.Parameters())
		assert.Equal(t, flops, int64(n.FLOPs(network.Forward))+int64(n.FLOPs(network.InputGradient))+int64(n.FLOPs(network.WeightGradient)))
		tensors := map[string]bool{}
		for _, tensor := range n.ParameterTensors() {
			assert.False(t, tensors[tensor.Name], "%s %s", p.Name, tensor.Name)
			tensors[tensor.Name] = true
		}
	}
}

func TestShapeElements(t *testing.T) {
	assert.EqualValues(t, 24, network.Dims{2, 3, 4}.Elements())
	assert.EqualValues(t, 1, network.Dims{}.Elements())
	assert.EqualValues(t, 1<<40, network.Dims{1 << 20, 1 << 20}.Elements())
}

// total adds a count of every element up.
func total[T any](list []T, of func(T) int64) (n int64) {
	for _, x := range list {
		n += of(x)
	}
	return n
}
