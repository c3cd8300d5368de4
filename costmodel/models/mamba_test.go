package models

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// patternModel is a small network in the form of Nemotron-H, with experts on few features.
func patternModel() Model {
	return Model{
		Family: FamilyMixtral, Layers: 5, Pattern: "ME-*M", Hidden: 96, Heads: 4, KVHeads: 2, HeadDim: 32, FFNHidden: 48,
		Vocab: 256, SequenceLength: 256, Experts: 8, ExpertsPerToken: 2, ExpertHidden: 24, SharedExperts: 2, ExpertLatent: 16,
		PositionEmbedding: PositionsNone, Activation: ActivationSquaredReLU, Gated: new(false), Attention: AttentionFlash,
		MambaHeads: 8, MambaHeadDim: 16, MambaStates: 32, MambaGroups: 2, MambaConvolution: 4, MambaChunk: 64,
	}
}

// mambaDots lists the products of a chunk of q tokens in the kernels of mamba_ssm, of a head and of a group.
func mambaDots(q, n, p int) (head, group map[network.Pass][]dot) {
	head = map[network.Pass][]dot{
		network.Forward: {
			{p, q, n},            // _chunk_state_fwd_kernel
			{q, n, p}, {q, q, p}, // _chunk_scan_fwd_kernel
		},
		network.InputGradient: {
			{p, q, n},            // _chunk_state_fwd_kernel
			{p, q, n},            // _chunk_scan_bwd_dstates_kernel
			{q, n, p}, {q, q, p}, // _chunk_scan_chunk_state_bwd_dx_kernel
			{q, p, n}, // _chunk_state_bwd_db_kernel
			{q, p, n}, // _chunk_scan_bwd_dc_kernel
			{q, p, q}, // _chunk_scan_bwd_dcb_kernel
			{q, p, q}, // _chunk_scan_bwd_ddAcs_stable_kernel
		},
	}
	group = map[network.Pass][]dot{
		network.Forward:       {{q, n, q}},                       // _bmm_chunk_fwd_kernel
		network.InputGradient: {{q, n, q}, {q, q, n}, {q, q, n}}, // the same, and _bmm_chunk_bwd_kernel twice
	}
	return head, group
}

// The scan has the FLOPs of every product in its kernels.
func TestMambaScanCountsKernels(t *testing.T) {
	m := patternModel()
	scan := opsOf(t, m, 0)[mamba+"scan"]
	head, shared := mambaDots(m.MambaChunk, m.MambaStates, m.MambaHeadDim)
	flops := func(dots []dot) (sum int) {
		for _, d := range dots {
			sum += 2 * d.rows * d.inner * d.columns
		}
		return sum
	}
	for _, p := range []network.Pass{network.Forward, network.InputGradient} {
		want := m.SequenceLength / m.MambaChunk * (m.MambaHeads*flops(head[p]) + m.MambaGroups*flops(shared[p]))
		assert.InEpsilon(t, want, scan.FLOPs(p), 1e-12, p)
	}
	m.SequenceLength *= 4
	long := opsOf(t, m, 0)[mamba+"scan"]
	assert.Equal(t, 4*scan.Moved[network.Forward], long.Moved[network.Forward], "linear in tokens")
	assert.InDelta(t, 4*scan.FLOPs(network.InputGradient), long.FLOPs(network.InputGradient), 0)
}

// Every block has a norm, the part of its letter and nothing else, and all are blocks.
func TestPatternParts(t *testing.T) {
	m := patternModel()
	n, err := m.Network()
	require.NoError(t, err)
	inner, latent := 8*16, 16
	width := 2*inner + 2*2*32 + 8
	want := map[byte]int{
		'M': 96*width + (inner+2*2*32)*(4+1) + 3*8 + inner + inner*96,
		'*': 96*(128+2*64) + 128*96,
		'-': 2 * 96 * 48,
		'E': 96*8 + 2*96*latent + 8*2*latent*24 + 2*96*48,
	}
	names := map[byte]string{'M': mamba, '*': "self_attn.", '-': "mlp.", 'E': "mlp.|block_sparse_moe."}
	for i := range m.Pattern {
		l := n.Layers[1+i]
		assert.Equal(t, int64(want[m.Pattern[i]]+96), l.Parameters(), "block %d", i)
		assert.True(t, l.IsBlock(), "block %d", i)
		norms := 0
		for _, op := range l.Ops {
			if strings.HasSuffix(op.Name, "_layernorm") {
				norms++
			}
			if strings.HasSuffix(op.Name, "_layernorm") || strings.HasSuffix(op.Name, ".residual") {
				continue
			}
			known := strings.Split(names[m.Pattern[i]], "|")
			assert.True(t, strings.HasPrefix(op.Name, known[0]) || strings.HasPrefix(op.Name, known[len(known)-1]), op.Name)
		}
		assert.Equal(t, 1, norms, "block %d", i)
	}
	before, blocks, after := n.Ends()
	assert.Equal(t, [3]int{1, 5, 2}, [3]int{before, blocks, after})
	assert.Equal(t, n.Layers[1].Ops, n.Layers[5].Ops)
}

// A mixer keeps its input, the result of its product, those of the scan before and after the gate, and that of the
// norm. Experts on few features keep as few.
func TestPatternKeeps(t *testing.T) {
	n, err := patternModel().Network()
	require.NoError(t, err)
	inner := 8 * 16
	width := 2*inner + 2*2*32 + 8
	all := func(network.Buffer) bool { return true }
	assert.Equal(t, int64(256*2*(96+96+width+3*inner)), kept(t, n, 0, all))
	rows := 2 * 256
	experts := 256*(96+96+8) + rows*(16+2*24+16) + 256*16 + 256*2*48
	assert.Equal(t, int64(2*experts), kept(t, n, 1, all), "norm, input, probabilities; rows; the sum; shared experts")
	assert.Equal(t, int64(2*256*(96+96+2*48)), kept(t, n, 2, all))
}

// A tensor-parallel group divides heads and groups; a context-parallel group exchanges tokens for them.
func TestMambaInGroups(t *testing.T) {
	m := patternModel()
	m.ExpertLatent = 0
	whole := opsOf(t, m, 0)[mamba+"scan"]
	for _, g := range []group.Group{{Devices: 2}, {Devices: 2, Sequence: true}, {Context: 2}} {
		n, err := m.On(g)
		require.NoError(t, err)
		sent := int64(0)
		for _, op := range n.Layers[1].Ops {
			switch op.Name {
			case mamba + "scan":
				assert.InDelta(t, whole.FLOPs(network.InputGradient)/2, op.FLOPs(network.InputGradient), 0)
				assert.Equal(t, whole.Moved[network.InputGradient]/2, op.Moved[network.InputGradient])
			case mamba + "to_heads", mamba + "to_tokens":
				sent += op.Exchanges[network.Forward].Elements
			}
		}
		if g.ContextParts() == 1 {
			assert.Zero(t, sent)
			continue
		}
		assert.Equal(t, int64(128*(2*128+2*2*32+8+128)), sent)
	}
	_, err := m.On(group.Group{Devices: 4})
	assert.ErrorContains(t, err, "must divide it")
	m.KVHeads = 4
	_, err = m.On(group.Group{Devices: 4})
	assert.ErrorContains(t, err, "mamba_groups = 2: parallel.tensor = 4 must divide it")
	_, err = m.On(group.Group{Context: 4})
	assert.ErrorContains(t, err, "mamba_groups = 2: parallel.context × parallel.tensor = 4 must divide them")
}

// Experts on few features exchange as few with their group, and are refused where a group divides every one of them.
func TestExpertLatentInGroups(t *testing.T) {
	m := patternModel()
	m.MambaGroups = 4
	_, err := m.On(group.Group{Devices: 2})
	assert.ErrorContains(t, err, "expert_latent = 16: psim does not model a tensor-parallel group that divides every")
	sent := func(m Model) (elements int64) {
		n, err := m.On(group.Group{Expert: 2})
		require.NoError(t, err)
		for _, op := range n.Layers[2].Ops {
			if op.Exchanges[network.Forward].Collective == group.AllToAll {
				elements += op.Exchanges[network.Forward].Elements
			}
		}
		return elements
	}
	few := sent(m)
	m.ExpertLatent = 0
	assert.Equal(t, few*96/16, sent(m))
}

func TestPatternErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*Model)
		want   string
	}{
		{func(m *Model) { m.Pattern = "ME-*Q" }, "pattern has 'Q' at block 4: must be M (Mamba-2)"},
		{func(m *Model) { m.Pattern = "ME-*" }, "pattern has 4 blocks: must have layers = 5"},
		{func(m *Model) { m.Pattern = "ME -- *E M M" }, `pattern has "--" for block 1: must be a letter, or one of MGH*`},
		{func(m *Model) { m.Pattern = "ME -* *E M M" }, `pattern has "-*" for block 1`},
		{func(m *Model) { m.Pattern = "ME M*- *E M M" }, `pattern has "M*-" for block 1`},
		{func(m *Model) { m.Pattern = "-E-*-" }, "pattern: needs a block with the letter M or H with mamba_heads"},
		{func(m *Model) { m.Pattern = "MM-*M" }, "pattern: needs a block with the letter E with experts"},
		{func(m *Model) { m.Pattern = "" }, "mamba_heads: needs pattern"},
		{func(m *Model) { m.DenseLayers = 1 }, "remove dense_layers and moe_every"},
		{func(m *Model) { m.MTPShared = true }, "mtp_shared = true: has no meaning with fewer than two modules"},
		{func(m *Model) { m.PostNorms = true }, "remove parallel_block and post_norms"},
		{func(m *Model) { m.Window, m.FullAttentionEvery = 8, 2 }, "pattern: says which blocks have attention"},
		{func(m *Model) { m.MambaGroups = 3 }, "mamba_groups = 3: must divide mamba_heads = 8"},
		{func(m *Model) { m.MambaStates = 0 }, "mamba_heads: a Mamba-2 mixer needs"},
		{func(m *Model) { m.MambaHeads = -1 }, "mamba_heads = -1"},
	} {
		m := patternModel()
		c.change(&m)
		assert.ErrorContains(t, m.Validate(), c.want)
	}
}

// A block of two parts has the operations, tensors and buffers of both, and is one block.
func TestPatternWords(t *testing.T) {
	m := patternModel()
	m.Layers, m.Pattern = 6, "ME*-M-"
	parts := build(t, m)
	m.Layers, m.Pattern = 3, "ME *- M-"
	whole := build(t, m)
	_, blocks, _ := whole.Ends()
	require.Equal(t, 3, blocks)
	assert.Equal(t, parts.Parameters(), whole.Parameters())
	assert.Equal(t, parts.ActiveParameters(), whole.ActiveParameters())
	for i, l := range whole.Layers[1:4] {
		first, second := parts.Layers[1+2*i], parts.Layers[2+2*i]
		assert.Equal(t, append(slices.Clone(first.Ops), second.Ops...), l.Ops)
		assert.Equal(t, append(slices.Clone(first.Buffers), second.Buffers...), l.Buffers)
		assert.Equal(t, second.Experts, l.Experts)
	}
}
