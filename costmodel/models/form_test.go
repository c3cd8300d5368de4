package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// With the same form, the families have the same parameters, FLOPs and kept bytes; on two devices of a
// tensor-parallel group as well. They differ in names and in how many products make queries, keys and
// values.
func TestFormsOfFamilies(t *testing.T) {
	for bits := range 1 << 6 {
		has := func(bit int) bool { return bits>>bit&1 == 1 }
		pick := func(bit int, yes, no string) string {
			if has(bit) {
				return yes
			}
			return no
		}
		m := Model{
			Layers: 2, Hidden: 64, Heads: 8, KVHeads: 8, HeadDim: 16, FFNHidden: 96, Vocab: 128, SequenceLength: 32,
			Tied: new(true), Norm: pick(0, NormLayer, NormRMS), PositionEmbedding: pick(1, PositionsLearned, PositionsRotary),
			Gated: new(has(2)), LinearBias: new(has(3)), Activation: pick(5, ActivationReLU, ActivationGELU),
		}
		if has(4) {
			m.KVHeads, m.Dropout = 2, 0.1
		}
		for _, g := range []group.Group{{}, {Devices: 2}} {
			var of [2]network.Network
			for i, family := range []string{FamilyGPT, FamilyLlama} {
				m.Family = family
				var err error
				of[i], err = m.On(g)
				require.NoError(t, err)
			}
			assert.Equal(t, of[0].Parameters(), of[1].Parameters(), "%+v", m)
			for i, l := range of[0].Layers {
				for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
					assert.Equal(t, l.FLOPs(p), of[1].Layers[i].FLOPs(p), "%s of %+v", l.Name, m)
				}
				assert.Equal(t, network.BufferBytes(l.Buffers, 2, 1), network.BufferBytes(of[1].Layers[i].Buffers, 2, 1),
					"%s of %+v", l.Name, m)
			}
		}
	}
}

// Only the form of GPT-2 is executed. The first other part is named.
func TestUnexecutedForms(t *testing.T) {
	assert.NoError(t, Model{Preset: "gpt2"}.Unexecuted())
	assert.NoError(t, Model{Preset: "gpt2", KVHeads: 12, HeadDim: 32, Dropout: 0.1}.Unexecuted())
	for _, c := range []struct {
		model Model
		want  string
	}{
		{Model{KVHeads: 4}, "kv_heads = 4: is simulated, but not executed; set kv_heads = 12"},
		{Model{Norm: NormRMS}, `norm = "rms": is simulated, but not executed; set norm = "layer"`},
		{Model{Activation: ActivationReLU}, `activation = "relu": is simulated, but not executed; set activation = "gelu"`},
		{Model{Gated: new(true)}, "gated = true: is simulated, but not executed; set gated = false"},
		{Model{PositionEmbedding: PositionsRotary}, `position_embedding = "rotary": is simulated, but not executed; set position_embedding = "learned"`},
		{Model{LinearBias: new(false)}, "linear_bias = false: is simulated, but not executed; set linear_bias = true"},
	} {
		c.model.Preset = "gpt2"
		assert.EqualError(t, c.model.Unexecuted(), c.want)
		n, err := c.model.Network()
		require.NoError(t, err)
		assert.Equal(t, network.KindUnknown, n.Layers[1].Kind, c.want)
	}
}

// ReLU keeps its result alone, which the next product keeps anyway; a gate needs both its factors.
func TestKeptByReLU(t *testing.T) {
	kept := func(activation string, gated bool) int64 {
		n, err := Model{Preset: "gpt2", Activation: activation, Gated: &gated}.Network()
		require.NoError(t, err)
		return network.BufferBytes(n.Layers[1].Buffers, 2, 1)[network.ForwardToInput]
	}
	assert.Equal(t, int64(2*1024*3072), kept(ActivationGELU, false)-kept(ActivationReLU, false))
	assert.Equal(t, kept(ActivationGELU, true), kept(ActivationReLU, true))
	assert.Equal(t, kept(ActivationGELU, false), kept(ActivationSquaredReLU, false))
}

// With a norm for each half of a parallel block, both norms read the input of the block, and each half gathers its own
// input; results are summed once. Both norms and their outputs are kept, the input once.
func TestParallelNorms(t *testing.T) {
	m := Model{
		Family: FamilyLlama, Layers: 1, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 32, ParallelBlock: true,
		Norm: NormLayer,
	}
	one, err := m.Network()
	require.NoError(t, err)
	m.ParallelNorms = true
	two, err := m.Network()
	require.NoError(t, err)
	assert.Equal(t, int64(2*64), two.Parameters()-one.Parameters())
	assert.InDelta(t, one.FLOPs(network.Forward), two.FLOPs(network.Forward), 0)
	all := func(network.Buffer) bool { return true }
	assert.Equal(t, int64(2*32*64), kept(t, two, 0, all)-kept(t, one, 0, all))
	enters := func(m Model) (entered, left int) {
		n, err := m.On(group.Group{Devices: 2, Sequence: true})
		require.NoError(t, err)
		for _, op := range n.Layers[1].Ops {
			switch op.Exchanges[network.Forward].Collective {
			case group.AllGather:
				entered++
			case group.ReduceScatter:
				left++
			}
			if op.Name == "post_attention_layernorm" {
				assert.Equal(t, int64(32*64/2), op.Elements, "of a part of the sequence")
			}
		}
		return entered, left
	}
	entered, left := enters(m)
	assert.Equal(t, [2]int{2, 1}, [2]int{entered, left})
	m.ParallelNorms = false
	entered, left = enters(m)
	assert.Equal(t, [2]int{1, 1}, [2]int{entered, left})
	m.ParallelBlock, m.ParallelNorms = false, true
	assert.ErrorContains(t, m.Validate(), "parallel_norms = true: has no meaning without parallel_block")
}

// A norm after the embedding and a bias of the head are tensors of every family, and psim exec names them.
func TestEmbeddingNormAndHeadBias(t *testing.T) {
	for _, family := range []string{FamilyGPT, FamilyLlama} {
		m := Model{Family: family, Layers: 1, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 32, Norm: NormLayer}
		plain, err := m.Network()
		require.NoError(t, err)
		m.EmbeddingNorm, m.HeadBias = true, true
		n, err := m.Network()
		require.NoError(t, err)
		assert.Equal(t, int64(2*64+128), n.Parameters()-plain.Parameters())
		assert.Equal(t, int64(2*64), n.Layers[0].NormParameters())
		assert.False(t, n.Layers[0].KeepsGradient)
		all := func(network.Buffer) bool { return true }
		assert.Equal(t, int64(2*32*64), kept(t, n, -1, all)-kept(t, plain, -1, all))
		half, err := m.On(group.Group{Devices: 2})
		require.NoError(t, err)
		head := half.Layers[len(half.Layers)-1]
		assert.Equal(t, network.Dims{64}, head.Params[len(head.Params)-1].Shape)
	}
	m := Model{Family: FamilyGPT, Layers: 1, Hidden: 64, Heads: 4, Vocab: 128, SequenceLength: 32, HeadBias: true}
	assert.ErrorContains(t, m.Unexecuted(), "head_bias = true: is simulated, but not executed")
}
