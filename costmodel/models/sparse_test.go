package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// sparseModel is a small network with an indexer that chooses 64 of 256 tokens.
func sparseModel() Model {
	return Model{
		Family: FamilyLlama, Layers: 8, Hidden: 256, Heads: 8, FFNHidden: 512, Vocab: 1024, SequenceLength: 256,
		KVLoraRank: 64, QLoraRank: 96, QKNopeHeadDim: 16, QKRopeHeadDim: 8, VHeadDim: 16,
		IndexTopK: 64, IndexHeads: 4, IndexHeadDim: 32, IndexEvery: 4, IndexFirst: 3, Attention: AttentionFlash,
	}
}

// opsOf returns the operations of a block by name.
func opsOf(t *testing.T, m Model, block int) map[string]network.Op {
	n, err := m.Network()
	require.NoError(t, err)
	ops := map[string]network.Op{}
	for _, op := range n.Layers[1+block].Ops {
		ops[op.Name] = op
	}
	return ops
}

// With more tokens than are chosen, costs follow closed forms: pairs that a loop counts, times the features
// of the small vectors.
func TestSparseClosedForms(t *testing.T) {
	m := sparseModel()
	chosen, all := 0, 0
	for token := 1; token <= m.SequenceLength; token++ {
		chosen += min(token, m.IndexTopK)
		all += token
	}
	ops := opsOf(t, m, 0)
	core, scores, divergence := ops["self_attn.flash"], ops[indexer+"scores"], ops[indexer+"divergence"]
	computed := func(o network.Op, p network.Pass) float64 { return o.FLOPs(p) * o.Covered() }
	assert.InEpsilon(t, 2*8*chosen*((64+8)+64), computed(core, network.Forward), 1e-12)
	assert.InEpsilon(t, 2*8*chosen*(3*(64+8)+2*64), computed(core, network.InputGradient), 1e-12)
	assert.InEpsilon(t, 2*4*all*(32+1), computed(scores, network.Forward), 1e-12)
	assert.Zero(t, scores.FLOPs(network.InputGradient))
	assert.Zero(t, divergence.FLOPs(network.Forward))
	assert.InEpsilon(t, 2*4*chosen*(3*32+2), computed(divergence, network.InputGradient), 1e-12)
	for _, name := range []string{"wq_b", "wk", "weights_proj"} {
		assert.Zero(t, ops[indexer+name].FLOPs(network.InputGradient), "inputs are detached")
		assert.Positive(t, ops[indexer+name].FLOPs(network.WeightGradient))
	}
	assert.NotContains(t, ops, "self_attn.expand")
}

// Blocks 0, 1, 2 and 6 of 8 have an indexer; the others have neither its tensors nor its operations, and attend
// as sparsely.
func TestSharedIndexers(t *testing.T) {
	for i := range 8 {
		ops := opsOf(t, sparseModel(), i)
		_, has := ops[indexer+"scores"]
		assert.Equal(t, i < 3 || i == 6, has, "block %d", i)
		assert.Equal(t, int64(64), ops["self_attn.flash"].Cols)
	}
	n, err := sparseModel().Network()
	require.NoError(t, err)
	tensors := 96*4*32 + 256*32 + 2*32 + 256*4
	assert.Equal(t, int64(tensors), n.Layers[1].Parameters()-n.Layers[4].Parameters())
}

// A sequence of no more tokens than are chosen has the attention of a model without an indexer.
func TestShortSequencesAreDense(t *testing.T) {
	m := sparseModel()
	m.SequenceLength = 64
	with := opsOf(t, m, 0)
	m.IndexTopK, m.IndexHeads, m.IndexHeadDim, m.IndexEvery, m.IndexFirst = 0, 0, 0, 0, 0
	for name, op := range opsOf(t, m, 0) {
		assert.Equal(t, op, with[name], name)
	}
}

// A tensor-parallel group divides attention, but not the indexer. With sequence parallelism its input is
// gathered, and no gradient of it is scattered.
func TestIndexerInGroups(t *testing.T) {
	m := sparseModel()
	whole, err := m.Network()
	require.NoError(t, err)
	for _, sequence := range []bool{false, true} {
		half, err := m.On(group.Group{Devices: 2, Sequence: sequence})
		require.NoError(t, err)
		find := func(n network.Network, name string) (found network.Op) {
			for _, op := range n.Layers[1].Ops {
				if op.Name == name {
					found = op
				}
			}
			return found
		}
		for _, name := range []string{"wq_b", "wk", "scores", "topk", "divergence"} {
			assert.Equal(t, find(whole, indexer+name), find(half, indexer+name), name)
		}
		assert.Equal(t, find(whole, "self_attn.flash").FLOPs(network.Forward)/2, find(half, "self_attn.flash").FLOPs(network.Forward))
		gather := find(half, indexer+"wk.enter")
		assert.Equal(t, sequence, gather.Exchanges[network.Forward].Collective == group.AllGather)
		assert.Equal(t, group.NoCollective, gather.Exchanges[network.InputGradient].Collective)
	}
	_, err = m.On(group.Group{Context: 2})
	assert.ErrorContains(t, err, "index_topk: psim does not model the choice of an indexer over sequences in parts")
}

func TestSparseErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*Model)
		want   string
	}{
		{func(m *Model) { m.IndexTopK = 0 }, "index_heads = 4: has no meaning without index_topk"},
		{func(m *Model) { m.IndexHeads = 0 }, "index_topk = 64: needs index_heads and index_head_dim"},
		{func(m *Model) { m.QLoraRank = 0 }, "index_topk = 64: needs latent attention with q_lora_rank"},
		{func(m *Model) { m.IndexEvery = 0 }, "index_first = 3: has no meaning without index_every"},
		{func(m *Model) { m.IndexFirst = 0 }, "index_every = 4: needs index_first"},
		{func(m *Model) { m.Window = 8 }, "window = 8: has no meaning with index_topk"},
	} {
		m := sparseModel()
		c.change(&m)
		assert.ErrorContains(t, m.Validate(), c.want)
	}
}
