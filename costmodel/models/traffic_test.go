package models

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// What every set of kernels moves between products, in elements of 16 bits for one of the
// result, is what it reads and what it writes.
func TestTrafficOfKernels(t *testing.T) {
	type sums struct{ norm, residual, activation, gate, rotary, loss [2]int64 }
	for _, c := range []struct {
		of       Model
		sums     sums
		split    int64
		gradient int64
	}{
		{Model{Kernels: KernelsFused}, sums{[2]int64{2, 5}, [2]int64{3, 3}, [2]int64{2, 3}, [2]int64{3, 5}, [2]int64{2, 2}, [2]int64{2, 2}}, 0, 0},
		{Model{Kernels: "eager"}, sums{[2]int64{2, 5}, [2]int64{3, 3}, [2]int64{2, 3}, [2]int64{3, 6}, [2]int64{10, 10}, [2]int64{7, 11}}, 2, 5},
		{Model{Kernels: "eager", Norm: NormRMS}, sums{[2]int64{18, 42}, [2]int64{3, 3}, [2]int64{2, 3}, [2]int64{3, 6}, [2]int64{10, 10}, [2]int64{7, 11}}, 2, 5},
		{Model{Kernels: "eager", Code: "torchtitan"}, sums{[2]int64{2, 5}, [2]int64{3, 3}, [2]int64{2, 3}, [2]int64{3, 6}, [2]int64{10, 10}, [2]int64{7, 11}}, 2, 5},
		{Model{Kernels: "eager", Code: "nanotron"}, sums{[2]int64{2, 5}, [2]int64{3, 3}, [2]int64{2, 3}, [2]int64{3, 10}, [2]int64{2, 2}, [2]int64{7, 11}}, 2, 5},
		{Model{Kernels: "compiled"}, sums{[2]int64{2, 5}, [2]int64{2, 1}, [2]int64{2, 3}, [2]int64{1, 2}, [2]int64{2, 2}, [2]int64{7, 11}}, 0, 3},
		{Model{Kernels: "te"}, sums{[2]int64{2, 5}, [2]int64{3, 3}, [2]int64{2, 3}, [2]int64{1, 2}, [2]int64{2, 2}, [2]int64{13, 7}}, 0, 0},
		{Model{Kernels: "megatron"}, sums{[2]int64{2, 3}, [2]int64{3, 3}, [2]int64{2, 3}, [2]int64{3, 5}, [2]int64{2, 2}, [2]int64{2, 2}}, 0, 0},
		{Model{Kernels: "megatron", Code: "megatron-2021"}, sums{[2]int64{2, 5}, [2]int64{3, 3}, [2]int64{2, 3}, [2]int64{3, 5}, [2]int64{2, 2}, [2]int64{2, 2}}, 0, 3},
	} {
		b := c.of.between()
		of := func(m moves) [2]int64 { return [2]int64{m.forward.Moved(1), m.input.Moved(1)} }
		require.Equal(t, c.sums, sums{of(b.norm), of(b.residual), of(b.activation), of(b.gate), of(b.rotary), of(b.loss)}, "%+v", c.of)
		require.Equal(t, c.split, b.split.forward.Moved(1))
		require.Equal(t, c.gradient, b.gradient.Moved(1))
	}
}

// An operation reads what it does not write, however its device's part is made: by tensors,
// along sequences and contexts, by experts, in 8 bits.
func TestBytesApart(t *testing.T) {
	var groups []group.Group
	for _, method := range []string{group.ContextRing, group.ContextGather, group.ContextUlysses} {
		groups = append(groups, group.Group{Devices: 2, Sequence: true, Context: 2, Method: method})
	}
	groups = append(groups, group.Group{}, group.Group{Devices: 2, Sequence: true, Expert: 2, EightBits: true})
	checked := 0
	base := Model{Layers: 2, Hidden: 64, Heads: 8, FFNHidden: 128, Vocab: 512, SequenceLength: 64}
	for _, set := range KernelSets() {
		for _, g := range groups {
			gpt, llama, mixtral := base, base, base
			gpt.Family, gpt.Dropout = FamilyGPT, 0.1
			llama.Family, llama.KVHeads = FamilyLlama, 4
			mixtral.Family, mixtral.Experts, mixtral.ExpertsPerToken = FamilyMixtral, 4, 2
			for _, m := range []Model{gpt, llama, mixtral} {
				m.Kernels = set.Name
				if m.Attention = AttentionFlash; set.Name == "megatron" && g.Context < 2 {
					m.Attention = AttentionUnfused
				}
				checked += requireApart(t, m, g)
			}
		}
	}
	t.Log(checked)
	require.Greater(t, checked, 1000)
}

// requireApart checks all operations of a model that can be divided so, and counts them.
func requireApart(t *testing.T, m Model, g group.Group) (checked int) {
	n, err := m.On(g)
	if err != nil {
		return 0
	}
	for _, l := range n.Layers {
		for _, o := range l.Ops {
			for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
				read, written := o.ReadWritten(p, 3, 2)
				require.Equal(t, o.Bytes(p, 3, 2), read+written, "%s %s", o.Name, p)
				require.GreaterOrEqual(t, min(read, written), int64(0), "%s %s %s %+v", m.Kernels, o.Name, p, g)
				require.True(t, read+written == 0 || read > 0, "%s %s %s", m.Kernels, o.Name, p)
			}
			checked++
		}
	}
	return checked
}
