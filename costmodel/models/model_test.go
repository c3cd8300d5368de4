package models

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
)

func TestModelErrors(t *testing.T) {
	yes := true
	gpt := Model{Family: "gpt", Layers: 2, Hidden: 64, Heads: 4, Vocab: 100, SequenceLength: 16}
	with := func(change func(*Model)) Model {
		m := gpt
		change(&m)
		return m
	}
	llama := func(change func(*Model)) Model {
		m := gpt
		m.Family, m.FFNHidden = "llama", 128
		change(&m)
		return m
	}
	for _, c := range []struct {
		model Model
		want  string
	}{
		{Model{}, `preset = "", file = "", family = "": exactly one`},
		{Model{Preset: "gpt2", Family: "gpt"}, "exactly one"},
		{Model{Preset: "gpt2", File: "config.json"}, "exactly one"},
		{Model{Preset: "gpt5"}, `preset = "gpt5": there is no such preset (psim list models); for another model, give file = "path/to/config.json" instead; did you mean gpt2?`},
		{Model{Preset: "mixtral-8x7b", ExpertsPerToken: 9}, "experts_per_token = 9: must be at most experts = 8"},
		{Model{Preset: "mixtral-8x7b", Experts: 5000}, "experts = 5000: must be 1 to 1000"},
		{Model{Preset: "llama2-7b", Experts: 8}, `experts = 8: has no meaning with preset "llama2-7b"`},
		{Model{Family: "bert"}, `family = "bert": must be one of gpt, llama, mixtral, mlp`},
		{Model{Family: "vgg"}, `family = "vgg": must be one of`},
		{Model{File: "config.json"}, `file = "config.json": has not been read`},
		{Model{File: "config.json", Layers: 3}, "layers = 3: has no meaning with file"},
		{Model{Preset: "gpt2", SequenceLength: 1025}, "sequence_length = 1025: must be at most positions = 1024"},
		{Model{Preset: "gpt2", SequenceLength: -1}, "sequence_length = -1: must be at least 1"},
		{Model{Preset: "gpt2", Hidden: 1000}, "heads = 12: must divide hidden = 1000"},
		{Model{Preset: "gpt2", KVHeads: 5}, "kv_heads = 5: must divide heads = 12"},
		{Model{Preset: "gpt2", Norm: "batch"}, `norm = "batch": must be layer or rms`},
		{Model{Preset: "gpt2", Activation: "swish"}, `activation = "swish": must be one of gelu, silu, relu, relu2`},
		{Model{Preset: "gpt2", PositionEmbedding: "rope"}, `position_embedding = "rope": must be one of learned, rotary, alibi, none`},
		{Model{Preset: "gpt2", PositionEmbedding: "none", Positions: 8}, `positions = 8: has no meaning with position_embedding = "none"`},
		{Model{Preset: "deepseek-v3", PositionEmbedding: "none"}, `position_embedding = "none": latent attention has rotary positions`},
		{Model{Preset: "deepseek-v3", PositionEmbedding: "learned", MTPLayers: 1}, `position_embedding = "learned": latent attention`},
		{llama(func(m *Model) { m.PositionEmbedding, m.MTPLayers = "learned", 1 }), "mtp_layers = 1: modules that predict have no table of positions"},
		{llama(func(m *Model) { m.Dropout, m.ParallelBlock = 0.1, true }), "dropout: psim models none in blocks with attention and MLP in parallel"},
		{Model{Preset: "vgg16", SequenceLength: 128}, `sequence_length = 128: has no meaning with preset "vgg16"`},
		{Model{Preset: "mlp", Tied: &yes}, `tied = true: has no meaning with preset "mlp"`},
		{Model{Preset: "mlp", Dropout: 0.1}, `dropout = 0.1: has no meaning with preset "mlp"`},
		{Model{Preset: "vgg16", Dropout: 0.1}, `dropout = 0.1: has no meaning with preset "vgg16"`},
		{Model{File: "config.json", Dropout: 0.1}, "dropout = 0.1: has no meaning with file"},
		{Model{Preset: "gpt2", Dropout: 1}, "dropout = 1: must be at least 0 and less than 1"},
		{with(func(m *Model) { m.Dropout = -0.1 }), "dropout = -0.1: must be at least 0 and less than 1"},
		{with(func(m *Model) { m.Dropout = math.NaN() }), "dropout = NaN: must be"},
		{Model{Preset: "mlp", Layers: -2}, "layers = -2: must be 1 to 10000"},
		{Model{Family: "mlp", Layers: 2}, "hidden is missing; write for example hidden = 768"},
		{with(func(m *Model) { m.Layers = 0 }), "layers is missing"},
		{with(func(m *Model) { m.Layers = 1e6 }), "layers = 1000000: must be 1 to 10000"},
		{with(func(m *Model) { m.Hidden = -64 }), "hidden = -64: must be at least 1"},
		{with(func(m *Model) { m.Heads = 0 }), "heads is missing"},
		{with(func(m *Model) { m.Heads = 5 }), "heads = 5: must divide hidden = 64"},
		{with(func(m *Model) { m.Heads = 128 }), "heads = 128: must divide hidden = 64"},
		{with(func(m *Model) { m.Vocab = 0 }), "vocab is missing"},
		{with(func(m *Model) { m.SequenceLength = 0 }), "sequence_length is missing"},
		{with(func(m *Model) { m.Positions = 8 }), "must be at most positions = 8"},
		{with(func(m *Model) { m.Vocab = math.MaxInt }), "vocab = 9223372036854775807: must be at most 1073741824"},
		{with(func(m *Model) { m.Hidden = 1 << 28; m.SequenceLength = 1 << 28 }), "bytes of parameters and of a sample are beyond"},
		{llama(func(m *Model) { m.FFNHidden = 0 }), "ffn_hidden is missing"},
		{llama(func(m *Model) { m.KVHeads = 3 }), "kv_heads = 3: must divide heads = 4"},
		{llama(func(m *Model) { m.Positions = 64 }), `positions = 64: has no meaning with position_embedding = "rotary"`},
	} {
		n, err := c.model.Network()
		assert.ErrorContains(t, err, c.want)
		assert.Empty(t, n.Layers)
	}
	assert.NoError(t, Model{File: "config.json", SequenceLength: 128}.Validate())
}

func TestModelDefaults(t *testing.T) {
	no := false
	m := Model{Family: "gpt", Layers: 2, Hidden: 64, Heads: 4, Vocab: 100, SequenceLength: 16}
	n := build(t, m)
	assert.Equal(t, "gpt-2x64", n.Name)
	assert.Equal(t, network.Dims{16, 64}, n.Layers[0].Params[1].Shape, "positions are the sequence length")
	assert.NotEmpty(t, n.Layers[4].Tied)
	m.Tied = &no
	assert.Equal(t, n.Parameters()+100*64, build(t, m).Parameters())

	m = Model{Family: "llama", Layers: 2, Hidden: 60, Heads: 8, HeadDim: 16, FFNHidden: 100, Vocab: 100, SequenceLength: 16}
	n = build(t, m)
	assert.Equal(t, network.Dims{128, 60}, n.Layers[1].Params[1].Shape, "head_dim need not be hidden / heads")
	assert.Equal(t, network.Dims{128, 60}, n.Layers[1].Params[2].Shape, "kv_heads is heads")
	assert.Empty(t, n.Layers[4].Tied)
}

func TestPresetOverlay(t *testing.T) {
	n := build(t, Model{Preset: "gpt2", Layers: 24, SequenceLength: 128})
	assert.Equal(t, "gpt2 (layers 24)", n.Name)
	assert.Len(t, n.Layers, 27)
	assert.Equal(t, network.Dims{1024, 768}, n.Layers[0].Params[1].Shape)
	assert.Equal(t, "gpt2", build(t, Model{Preset: "gpt2", SequenceLength: 128}).Name)
	assert.Equal(t, "gpt2 (dropout 0.1)", build(t, Model{Preset: "gpt2", Dropout: 0.1}).Name)
	assert.Equal(t, "llama2-7b (qkv_bias)", build(t, Model{Preset: "llama2-7b", QKVBias: true}).Name)
	assert.Equal(t, "mixtral-8x7b (experts 4)", build(t, Model{Preset: "mixtral-8x7b", Experts: 4}).Name)
	n = build(t, Model{Preset: "mlp", Layers: 3, Hidden: 10})
	assert.EqualValues(t, 3*110, n.Parameters())
	assert.EqualValues(t, 2*(3-1)*100, n.FLOPs(network.InputGradient))
}

func TestPresets(t *testing.T) {
	for _, p := range Presets() {
		n, err := Model{Preset: p.Name}.Network()
		require.NoError(t, err)
		assert.Equal(t, p.Name, n.Name)
		assert.NotEmpty(t, p.Summary)
		assert.Positive(t, n.FLOPs(network.Forward))
	}
}
