package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// What Megatron's kernels do more than fused ones, by hand: nothing to products;
// four kernels more around every softmax whose samples × heads of a device are no
// multiple of four; a bias and a copy, and the gradients of queries, keys and values
// joined; a sum for the gradient of each bias; norms that go over their input and gradient
// once; five more for the loss; and one less for every dropout.
func TestMegatronKernels(t *testing.T) {
	const s, v = 16, 64
	rapid.Check(t, func(t *rapid.T) {
		group := group.Group{Devices: rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "devices")}
		heads := int64(rapid.IntRange(1, 9).Draw(t, "heads of a device"))
		samples := rapid.Int64Range(1, 9).Draw(t, "samples")
		all := group.TensorParts() * int(heads)
		m := Model{Family: FamilyGPT, Layers: 2, Hidden: all * 8, Heads: all, Vocab: v, SequenceLength: s, Dropout: 0.1}
		fused, err := m.On(group)
		require.NoError(t, err)
		m.Kernels = "megatron"
		megatron, err := m.On(group)
		require.NoError(t, err)
		for i, l := range megatron.Layers {
			for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
				var kernels int
				var moved int64 // for a sample
				block, head := l.Kind == network.KindGPTBlock, i == len(megatron.Layers)-1
				context, square, hidden := 8*heads*s, heads*s*s, s*int64(m.Hidden)
				if block && heads*samples%4 != 0 && p != network.WeightGradient {
					kernels, moved = 4, (3+4+4+3)*square
				}
				switch {
				case block && p == network.Forward:
					kernels += 1 + 1 - 2
					moved += 2*3*context + 2*context - 2*2*hidden - square/2
				case block && p == network.InputGradient:
					kernels += 2
					moved += 2*context + 2*3*context - square - 2*2*hidden
				case block:
					kernels += 4
					moved += 3*context + 4*context + 2*hidden
				case l.Name == "ln_f" && p == network.InputGradient:
					moved -= 2 * hidden
				}
				logits := s * v / int64(group.TensorParts())
				switch {
				case head && p == network.Forward:
					kernels, moved = 5, (3+2+4+4+2+4-2)*logits
				case head && p == network.InputGradient:
					kernels, moved = 1, (3+4-2)*logits
				}
				assert.Equal(t, kernels, kernelsOf(l, p, samples)-kernelsOf(fused.Layers[i], p, samples), "%s %s", l.Name, p)
				assert.Equal(t, moved*samples, l.Traffic(p, samples)-fused.Layers[i].Traffic(p, samples), "%s %s", l.Name, p)
				assert.Equal(t, fused.Layers[i].FLOPs(p), l.FLOPs(p))
			}
		}
	})
}

func kernelsOf(l network.Layer, p network.Pass, samples int64) (n int) {
	for _, op := range l.Ops {
		n += op.Kernels(p, samples)
	}
	return n
}

func TestKernelsErrors(t *testing.T) {
	require.EqualError(t, Model{Preset: "gpt2", Kernels: "flash"}.Validate(), `kernels = "flash": must be one of eager, compiled, te, fused, megatron`)
	require.EqualError(t, Model{Preset: "mlp", Kernels: KernelsFused}.Validate(), `kernels = "fused": has no meaning with preset "mlp"`)
	require.NoError(t, Model{Preset: "gpt2", Kernels: KernelsFused}.Validate())
}

// What eager code of a Llama's block moves beside that of fused kernels, by hand: with
// RMSNorm in steps, and nanotron's with its copies.
func TestEagerLlama(t *testing.T) {
	const s, h, kv, f, v = 16, 32, 8, 64, 50
	m := Model{Family: FamilyLlama, Layers: 1, Hidden: h, Heads: 4, KVHeads: 1, FFNHidden: f, Vocab: v, SequenceLength: s}
	layers := func(kernels, eager string) []network.Layer {
		m.Kernels, m.Code = kernels, eager
		n, err := m.Network()
		require.NoError(t, err)
		return n.Layers
	}
	fused := layers(KernelsFused, "")
	for _, c := range []struct {
		eager                    string
		forward, input           int64 // of the block
		finalForward, finalInput int64 // of the norm after it
	}{
		{"plain", 2*(18-2)*s*h + (10-2)*s*(h+kv), 2*(42-5)*s*h + (10-2)*s*(h+kv) + (6-5)*s*f, (18 - 2) * s * h, (42 - 5) * s * h},
		{"torchtitan", 2*(18-2)*s*h + (10-2)*s*(h+kv) + 2*s*(h+kv), 2*(42-5)*s*h + (10-2)*s*(h+kv) + 2*s*(h+kv) + (6-5)*s*f, (18 - 2) * s * h, (42 - 5) * s * h},
		{"nanotron", 2*s*(h+2*kv) + 4*s*2*kv, 4*s*(h+2*kv) + 2*s*2*kv + (10-5)*s*f, 0, 0},
	} {
		eager := layers("eager", c.eager)
		for p, want := range map[network.Pass][]int64{network.Forward: {c.forward, c.finalForward}, network.InputGradient: {c.input, c.finalInput}} {
			require.Equal(t, want[0], eager[1].Traffic(p, 1)-fused[1].Traffic(p, 1), "%s %s", c.eager, p)
			require.Equal(t, want[1], eager[2].Traffic(p, 1)-fused[2].Traffic(p, 1), "%s %s", c.eager, p)
		}
	}
	plain, titan := layers("compiled", "")[1], layers("compiled", "torchtitan")[1]
	require.EqualValues(t, (10-2+2)*s*(h+kv), titan.Traffic(network.Forward, 1)-plain.Traffic(network.Forward, 1), "complex numbers are not compiled")
	require.ErrorContains(t, Model{Preset: "gpt2", Code: "jax"}.Validate(), "code = \"jax\": must be one of plain, nanotron, internevo, torchtitan, kempnerforge, megatron-2021")
}

// Megatron of 2021 adds gradients of weights up in kernels of their own, and its norms read
// their input and gradient twice; the rest is the same.
func TestMegatron2021(t *testing.T) {
	m := Model{Family: FamilyGPT, Layers: 1, Hidden: 64, Heads: 4, Vocab: 64, SequenceLength: 16, Kernels: "megatron", Dropout: 0.1}
	now := build(t, m).Layers[1]
	m.Code = "megatron-2021"
	for i, o := range build(t, m).Layers[1].Ops {
		later := now.Ops[i]
		if o.Class == network.Product && o.Weight {
			require.Equal(t, later.Kernels(network.WeightGradient, 1)+1, o.Kernels(network.WeightGradient, 1), o.Name)
			require.True(t, o.AddsGradient)
			o.GradientMoved, o.GradientWrites = o.GradientMoved-3, o.GradientWrites-1
		}
		if o.Function == network.LayerNorm {
			o.Moved[network.InputGradient] -= 2 * 16 * 64
		}
		require.Equal(t, later, o)
	}
}
