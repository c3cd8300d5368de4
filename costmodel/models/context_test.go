package models_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/costmodel/network"
)

var contextMethods = []string{group.ContextRing, group.ContextGather, group.ContextUlysses}

// What a device of Llama 3 8B passes on in a block of one sequence of 32k tokens in four
// parts: keys and values of a quarter, three times, and with their gradients back.
func ExampleGroup_context() {
	m := models.Model{Preset: "llama3-8b", SequenceLength: 32768, Attention: models.AttentionFlash}
	n, err := m.On(group.Group{Context: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n.TokensPerSample, "tokens per sample, of which a block has", n.Layers[1].Input)
	for _, o := range n.Layers[1].Ops {
		for block := range o.Blocks {
			fmt.Println("block", block, "passes", o.PassedOn(network.Forward, block), "elements in F,", o.PassedOn(network.InputGradient, block), "in I")
		}
	}
	// Output:
	// 32768 tokens per sample, of which a block has [8192 4096]
	// block 0 passes 16777216 elements in F, 16777216 in I
	// block 1 passes 16777216 elements in F, 33554432 in I
	// block 2 passes 16777216 elements in F, 33554432 in I
	// block 3 passes 0 elements in F, 16777216 in I
}

// drawContext draws a model of fused attention, and a group that cuts its sequences.
func drawContext(t *rapid.T) (models.Model, group.Group) {
	g := group.Group{
		Devices: rapid.SampledFrom([]int{1, 2}).Draw(t, "tensor"), Context: rapid.SampledFrom([]int{2, 4}).Draw(t, "context"),
		Method: rapid.SampledFrom(contextMethods).Draw(t, "method"),
	}
	g.Sequence = g.Devices > 1 && rapid.Bool().Draw(t, "sequence")
	m := models.Model{
		Family: rapid.SampledFrom([]string{"gpt", "llama", "mixtral"}).Draw(t, "family"), Layers: 2, Heads: 16, Hidden: 64, FFNHidden: 96, Vocab: 64,
		SequenceLength: 16 * rapid.IntRange(1, 20).Draw(t, "sequence_length"), Attention: models.AttentionFlash,
		Kernels: rapid.SampledFrom([]string{models.KernelsFused, "eager", "te"}).Draw(t, "kernels"),
	}
	if m.Family != "gpt" {
		m.KVHeads = rapid.SampledFrom([]int{8, 16}).Draw(t, "kv_heads")
		if rapid.Bool().Draw(t, "window") {
			m.Window = 24
		}
	}
	if m.Family == "mixtral" {
		m.Experts, m.ExpertsPerToken = 4, 2
	}
	return m, g
}

// All parts together compute what the whole sequence takes, and keep as much; parameters
// are whole in each. What no part of attention is needs no exchange.
func TestPartsMakeTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, g := drawContext(t)
		parts, err := m.On(g)
		require.NoError(t, err)
		c := int64(g.Context)
		g.Context = 1
		whole, err := m.On(g)
		require.NoError(t, err)
		require.Equal(t, whole.Parameters(), parts.Parameters())
		require.Equal(t, whole.TokensPerSample, parts.TokensPerSample)
		for i, l := range parts.Layers {
			of := whole.Layers[i]
			for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
				require.Equal(t, of.FLOPs(p), float64(c)*l.FLOPs(p), "%s %s", l.Name, p)
			}
			require.Equal(t, of.Output.Elements(), c*l.Output.Elements())
			kept, all := network.BufferBytes(l.Buffers, 2, 1), network.BufferBytes(of.Buffers, 2, 1)
			for lt := range kept {
				require.Equal(t, all[lt], c*kept[lt], "%s %s", l.Name, network.Lifetime(lt))
			}
			for _, o := range l.Ops {
				for _, x := range o.Exchanges {
					require.True(t, !x.Context || l.Repeatable, "%s exchanges in %s", o.Name, l.Name)
				}
			}
			require.Equal(t, pairs(of), pairs(l)*c, "causal balance")
		}
	})
}

// pairs counts those of all heads in the core of attention.
func pairs(l network.Layer) (n int64) {
	for _, o := range l.Ops {
		n += o.Pairs * o.Count
	}
	return n
}

// What a block exchanges, in elements of one device and by pass, against closed forms: keys
// and values go to all others, or every device's part of all heads does.
func TestContextExchanges(t *testing.T) {
	for _, tensor := range []int{1, 2} {
		for _, c := range []int{2, 4} {
			for _, kvHeads := range []int{8, 16} {
				m := models.Model{Family: "llama", Layers: 1, Heads: 16, KVHeads: kvHeads, Hidden: 64, HeadDim: 8, FFNHidden: 64, Vocab: 64, SequenceLength: 64, Attention: models.AttentionFlash}
				part := int64(m.SequenceLength / c)
				q, kv, n := part*16*8/int64(tensor), part*int64(kvHeads)*2*8/int64(tensor), int64(c)
				for method, want := range map[string][2]int64{
					group.ContextRing:    {(n - 1) * kv, 2 * (n - 1) * kv},
					group.ContextGather:  {(n - 1) * kv, 2 * (n - 1) * kv},
					group.ContextUlysses: {(2*q + kv) * (n - 1) / n, (2*q + kv) * (n - 1) / n},
				} {
					net, err := m.On(group.Group{Devices: tensor, Context: c, Method: method})
					require.NoError(t, err)
					for p := range want {
						require.Equal(t, want[p], sentAmongParts(net.Layers[1], network.Pass(p), n), "%s over %d with tensor = %d in %s", method, c, tensor, network.Pass(p))
					}
				}
			}
		}
	}
}

// sentAmongParts counts the elements that a device sends to those with other parts.
func sentAmongParts(l network.Layer, p network.Pass, parts int64) (sum int64) {
	for _, o := range l.Ops {
		for block := range o.Blocks {
			sum += o.PassedOn(p, block)
		}
		if x := o.Exchanges[p]; x.Context {
			sum += x.Elements * (parts - 1) / parts
		}
	}
	return sum
}

// Parts that are not equal, or cannot attend to each other, are refused.
func TestContextErrors(t *testing.T) {
	m := models.Model{Family: "llama", Layers: 1, Heads: 8, KVHeads: 2, Hidden: 64, FFNHidden: 64, Vocab: 64, SequenceLength: 24, Attention: models.AttentionFlash}
	for want, g := range map[string]group.Group{
		"sequence_length = 24: parallel.context = 8 cuts":                     {Context: 8},
		"sequence_length = 24: parallel.context × parallel.tensor = 16":       {Context: 2, Devices: 8, Sequence: true},
		`kv_heads = 2: with context_method = "ulysses"`:                       {Context: 4, Method: group.ContextUlysses},
		`heads = 8: with context_method = "ulysses" parallel.context × paral`: {Context: 3, Method: group.ContextUlysses},
	} {
		_, err := m.On(g)
		require.ErrorContains(t, err, want)
	}
	m.Attention = models.AttentionUnfused
	_, err := m.On(group.Group{Context: 2})
	require.ErrorContains(t, err, `attention = "unfused": parallel.context = 2 takes fused attention`)
	_, err = models.Model{Preset: "vgg16"}.On(group.Group{Context: 2})
	require.ErrorContains(t, err, "context parallelism divides transformers alone")
}
