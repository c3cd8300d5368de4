package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// deltaModel is a small network in the form of Qwen3-Next: three blocks with gated delta nets, then one with attention.
func deltaModel() Model {
	return Model{
		Family: FamilyMixtral, Layers: 4, Hidden: 96, Heads: 4, KVHeads: 2, HeadDim: 32, FFNHidden: 48, Vocab: 256,
		SequenceLength: 256, Experts: 8, ExpertsPerToken: 2, ExpertHidden: 24, SharedExperts: 2, SharedExpertGate: true,
		QKNorm: true, AttentionGate: true, FullAttentionEvery: 4, Attention: AttentionFlash,
		DeltaKeyHeads: 4, DeltaValueHeads: 8, DeltaKeyDim: 32, DeltaValueDim: 16, DeltaConvolution: 4,
	}
}

// A dot is a product of matrices in a kernel of flash-linear-attention, of rows × inner with inner × columns.
type dot struct{ rows, inner, columns int }

// deltaDots lists the products of a chunk and a head, kernel by kernel, as flash-linear-attention makes them.
func deltaDots(k, v int) (forward, input []dot) {
	const c, tile = 64, 16
	for row := range c / tile { // chunk_gated_delta_rule_fwd_kkt_solve_kernel: tiles, then the inverse by tiles
		for column := range row + 1 {
			forward = append(forward, dot{tile, k, tile})
			for range row - column { // the sum over tiles between, and then the inverse of the diagonal one
				forward = append(forward, dot{tile, tile, tile})
			}
			if row > column {
				forward = append(forward, dot{tile, tile, tile})
			}
		}
	}
	again := []dot{{c, c, v}, {c, c, k}}             // recompute_w_u_fwd_kernel
	states := []dot{{c, k, v}, {k, c, v}}            // chunk_gated_delta_rule_fwd_kernel_h
	output := []dot{{c, k, v}, {c, k, c}, {c, c, v}} // chunk_fwd_kernel_o
	forward = append(append(append(forward, again...), states...), output...)
	input = append(append(input, again...), states...)
	input = append(input, dot{c, k, c}, dot{c, c, v})                                                         // chunk_bwd_kernel_dv_local
	input = append(input, dot{c, k, v}, dot{k, c, v}, dot{k, c, v})                                           // chunk_gated_delta_rule_bwd_kernel_dhu
	input = append(input, dot{c, v, c}, dot{c, v, k}, dot{c, v, k}, dot{c, v, k}, dot{c, c, k}, dot{c, c, k}) // chunk_bwd_kernel_dqkwg
	input = append(input, dot{c, k, c}, dot{c, c, k}, dot{c, v, c}, dot{c, c, v}, dot{c, c, c}, dot{c, c, c},
		dot{c, k, c}, dot{c, c, k}, dot{c, c, k}) // prepare_wy_repr_bwd_kernel
	return forward, input
}

// The scan has the FLOPs of every product in its kernels.
func TestDeltaScanCountsKernels(t *testing.T) {
	m := deltaModel()
	scan := opsOf(t, m, 0)[linear+"scan"]
	forward, input := deltaDots(m.DeltaKeyDim, m.DeltaValueDim)
	for p, dots := range map[network.Pass][]dot{network.Forward: forward, network.InputGradient: input} {
		sum := 0
		for _, d := range dots {
			sum += 2 * d.rows * d.inner * d.columns
		}
		chunks := m.SequenceLength / 64
		assert.InEpsilon(t, sum*chunks*m.DeltaValueHeads, scan.FLOPs(p), 1e-12, p)
	}
	assert.Zero(t, scan.FLOPs(network.WeightGradient))
	assert.InEpsilon(t, 1, scan.Covered(), 0)
}

// A scan grows with the tokens, not with their square.
func TestDeltaScanIsLinear(t *testing.T) {
	m := deltaModel()
	short := opsOf(t, m, 0)[linear+"scan"]
	m.SequenceLength *= 4
	long := opsOf(t, m, 0)[linear+"scan"]
	for p := range short.Moved {
		assert.Equal(t, 4*short.Moved[p], long.Moved[p])
		assert.InDelta(t, 4*short.FLOPs(network.Pass(p)), long.FLOPs(network.Pass(p)), 0)
	}
}

// Every fourth block has attention and no delta net; the others the reverse. All have experts.
func TestDeltaBlocks(t *testing.T) {
	n, err := deltaModel().Network()
	require.NoError(t, err)
	keys, values := 4*32, 8*16
	delta := 96*(2*keys+2*values+2*8) + 4*(2*keys+values) + 2*8 + 16 + values*96
	attention := 96*(2*128+2*64) + 2*32 + 128*96
	for i := range 4 {
		ops := opsOf(t, deltaModel(), i)
		_, scan := ops[linear+"scan"]
		_, core := ops["self_attn.flash"]
		assert.Equal(t, i != 3, scan, "block %d", i)
		assert.Equal(t, i == 3, core, "block %d", i)
		assert.Contains(t, ops, sharedGate+".scale")
		assert.True(t, n.Layers[1+i].IsBlock())
	}
	assert.Equal(t, int64(delta-attention), n.Layers[1].Parameters()-n.Layers[4].Parameters())
}

// kept adds up what a block keeps in bf16 for its backward, by the names of buffers.
func kept(t *testing.T, n network.Network, block int, counts func(network.Buffer) bool) (bytes int64) {
	for _, b := range n.Layers[1+block].Buffers {
		if b.Lifetime != network.InputToWeight && counts(b) {
			bytes += b.Bytes(2)
		}
	}
	return bytes
}

// A delta net keeps what its kernels save: the results of both products (of which the convolution, the decays and the
// gate read parts), normed queries and keys, values, decays in fp32, strengths, the inverse, and the results of the
// scan and of the norm.
func TestDeltaKeeps(t *testing.T) {
	n, err := deltaModel().Network()
	require.NoError(t, err)
	of := func(b network.Buffer) bool { return len(b.Name) > len(linear) && b.Name[:len(linear)] == linear }
	keys, values, heads := 4*32, 8*16, 8
	perToken := 2*(96+2*keys+2*values+2*heads+2*keys+values+heads+64*heads+2*values) + 4*heads
	assert.Equal(t, int64(256*perToken), kept(t, n, 0, of))
	assert.Zero(t, kept(t, n, 3, of))
	for _, b := range n.Layers[4].Buffers {
		if b.Name == "self_attn.context" {
			assert.Equal(t, network.ForwardToInput, b.Lifetime, "the projection reads the gated result")
		}
	}
}

// A tensor-parallel group divides heads, tensors and buffers; a context-parallel group has as many heads and tokens as
// that, and exchanges them.
func TestDeltaInGroups(t *testing.T) {
	m := deltaModel()
	whole := opsOf(t, m, 0)[linear+"scan"]
	for _, g := range []group.Group{
		{Devices: 2}, {Devices: 2, Sequence: true}, {Context: 2, Method: group.ContextRing}, {Context: 2, Method: group.ContextUlysses},
	} {
		n, err := m.On(g)
		require.NoError(t, err)
		sent := int64(0)
		for _, op := range n.Layers[1].Ops {
			if op.Name == linear+"scan" {
				assert.InDelta(t, whole.FLOPs(network.Forward)/2, op.FLOPs(network.Forward), 0)
				assert.InDelta(t, whole.FLOPs(network.InputGradient)/2, op.FLOPs(network.InputGradient), 0)
				assert.Equal(t, whole.Moved[network.Forward]/2, op.Moved[network.Forward])
				assert.Equal(t, whole.Count/2, op.Count)
			}
			if op.Name == linear+"to_heads" || op.Name == linear+"to_tokens" {
				assert.Equal(t, group.Transpose, op.Exchanges[network.InputGradient].Collective)
				sent += op.Exchanges[network.Forward].Elements
			}
		}
		if g.ContextParts() == 1 {
			assert.Zero(t, sent)
			continue
		}
		assert.Equal(t, int64(128*(2*128+2*128+2*8+128)), sent)
	}
	_, err := m.On(group.Group{Devices: 8})
	assert.ErrorContains(t, err, "heads = 4: parallel.tensor = 8 must divide it")
	m.Heads, m.KVHeads, m.DeltaKeyHeads, m.DeltaValueHeads = 8, 8, 2, 2
	_, err = m.On(group.Group{Devices: 4})
	assert.ErrorContains(t, err, "delta_key_heads = 2: parallel.tensor = 4 must divide it")
	_, err = m.On(group.Group{Context: 4})
	assert.ErrorContains(t, err, "delta_key_heads = 2: parallel.context × parallel.tensor = 4 must divide them")
}

func TestDeltaErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*Model)
		want   string
	}{
		{func(m *Model) { m.DeltaKeyHeads = 3 }, "delta_key_heads = 3: must divide delta_value_heads = 8"},
		{func(m *Model) { m.DeltaConvolution = 0 }, "delta_value_heads: a gated delta net needs delta_key_heads"},
		{func(m *Model) { m.DeltaValueHeads, m.FullAttentionEvery = 0, 0 }, "a gated delta net needs"},
		{func(m *Model) { m.Window = 8 }, "window = 8: has no meaning with gated delta nets"},
		{func(m *Model) {
			m.Family, m.Experts, m.ExpertsPerToken, m.ExpertHidden, m.SharedExperts = FamilyLlama, 0, 0, 0, 0
			m.SharedExpertGate, m.ParallelBlock = false, true
		}, "parallel_block = true: has no meaning with gated delta nets"},
		{func(m *Model) { m.SharedExperts = 0 }, "shared_expert_gate = true: has no meaning without shared_experts"},
		{func(m *Model) {
			m.DeltaKeyHeads, m.DeltaValueHeads, m.DeltaKeyDim, m.DeltaValueDim, m.DeltaConvolution = 0, 0, 0, 0, 0
		}, "full_attention_every = 4: has no meaning without window or gated delta nets"},
		{func(m *Model) { m.DeltaValueDim = -1 }, "delta_value_dim = -1"},
	} {
		m := deltaModel()
		c.change(&m)
		assert.ErrorContains(t, m.Validate(), c.want)
	}
}
