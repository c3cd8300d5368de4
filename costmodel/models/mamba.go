package models

import (
	"errors"
	"fmt"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/internal/setting"
)

// Mamba-2 (Dao and Gu 2024, Transformers are SSMs) mixes tokens by a scan in place of attention. Every head has a
// state of features × states, which each token decays and adds to. A product makes a gate, inputs, what they write
// (B) and what they read (C), and the steps; heads of a group share B and C. Inputs, B and C go through a causal
// convolution of each feature, with a bias; the scan follows, which multiplies its result with the gate; a norm and
// a projection end it. A tensor-parallel group divides heads and groups. A context-parallel group exchanges
// tokens for heads before the convolution and after the scan (Megatron-LM, ssm/mamba_mixer.py).
//
// The scan is that of mamba_ssm (ops/triton/ssd_combined.py, mamba_split_conv1d_scan_combined): products inside
// a chunk of tokens, and with the states between chunks. It keeps the result of the product and its own, and makes
// the convolution and the states again in the backward. Tiles above the diagonal of a chunk, some of which kernels
// leave out, are counted.

// mambaChunk is the number of tokens of a chunk unless it is given (Nemotron-H).
const mambaChunk = 128

const mamba = "mamba."

// mambas reports whether the model, or the block, has Mamba-2 mixers.
func (m Model) mambas() bool { return m.MambaHeads > 0 }

// mambaSizes returns the features of the inputs, and of B and C together.
func (m Model) mambaSizes() (inner, shared int) {
	return m.MambaHeads * m.MambaHeadDim, 2 * m.MambaGroups * m.MambaStates
}

// mambaParams lists the tensors of a mixer, without the projection of its results.
func mambaParams(m Model) []network.Tensor {
	inner, shared := m.mambaSizes()
	params := columnProjection(mamba+"in_proj", m.Hidden, 2*inner+shared+m.MambaHeads, false)
	vector := func(name string, shape ...int) network.Tensor {
		return network.Tensor{Name: mamba + name, Shape: shape, Sharded: true, Norm: true}
	}
	params = append(params, vector("conv1d.weight", inner+shared, 1, m.MambaConvolution),
		vector("conv1d.bias", inner+shared),
		vector("scan.dt_bias", m.MambaHeads), vector("scan.A_log", m.MambaHeads), vector("scan.D", m.MambaHeads))
	if m.mambaNorm() {
		params = append(params, vector("norm.weight", inner))
	}
	return params
}

// mambaNorm reports whether a norm follows the scan.
func (m Model) mambaNorm() bool { return m.MambaNorm == nil || *m.MambaNorm }

// mambaOps makes the operations of a mixer, without that projection.
func mambaOps(m Model) []network.Op {
	s, h := m.SequenceLength, m.Hidden
	inner, shared := m.mambaSizes()
	width := 2*inner + shared + m.MambaHeads
	// I makes the result of the convolution again in one kernel, and its gradient in another.
	convolution := network.NewElementwise(mamba+"conv1d", elements(s, inner+shared), traffic(2, 2), traffic(6, 4))
	convolution.Launches = [3]int{network.InputGradient: 2}
	ops := []network.Op{m.linear(mamba+"in_proj", matmul{s, h, width}, false).Entering()}
	ops = append(ops, m.toHeads(mamba+"to_heads", elements(s, width))...)
	ops = append(ops, convolution.Divided(), m.mambaScan())
	ops = append(ops, m.toHeads(mamba+"to_tokens", elements(s, inner))...)
	if !m.mambaNorm() {
		return ops
	}
	return append(ops, m.norm(mamba+"norm", s, inner).Divided())
}

// mambaScan makes the scan in all its kernels. In the counts, which are of a token, q is the chunk, p and n are the
// features and the states of a head. Steps and states are in fp32, and so are the products of C with B.
//
// F, for every head: states of a chunk, and what tokens read of them; products inside the chunk. For every group: C
// with B. I: states and C with B again, gradients of states, of inputs (through states, inside the chunk), of B,
// of C, of the products inside and of decays. For every group: C with B again, and both gradients of it.
func (m Model) mambaScan() network.Op {
	q, p, n := int64(m.MambaChunk), int64(m.MambaHeadDim), int64(m.MambaStates)
	s := int64(m.SequenceLength)
	heads, groups := s*int64(m.MambaHeads), s*int64(m.MambaGroups)
	states := heads * n * p / q
	op := network.Op{
		Name: mamba + "scan", Class: network.Scan, Inner: n, Values: p,
		Count: int64(m.MambaHeads / m.parts.ContextParts()), Elements: heads * p, Numbers: network.Mixed,
		Work: [3]float64{
			network.Forward:       float64(heads)*float64(2*n*p+q*p) + float64(groups)*float64(q*n),
			network.InputGradient: float64(heads)*float64(5*n*p+3*q*p) + float64(groups)*float64(3*q*n),
		},
		Launches: [3]int{network.Forward: 5, network.InputGradient: 15},
	}
	op.Writes = [3]int64{
		network.Forward:       heads*(2*p+4) + 3*states + groups*2*q,
		network.InputGradient: heads*(3*p+5) + 8*states + groups*(6*n+4*q),
	}
	op.Moved = [3]int64{
		network.Forward:       op.Writes[network.Forward] + heads*(3*p+9) + 3*states + groups*(4*n+2*q),
		network.InputGradient: op.Writes[network.InputGradient] + heads*(14*p+5) + 9*states + groups*(13*n+8*q),
	}
	return op.Divided()
}

// mambaBuffers lists what a mixer keeps.
func mambaBuffers(m Model) []network.Buffer {
	s := m.SequenceLength
	inner, shared := m.mambaSizes()
	sharded := func(name string, features int, lifetime network.Lifetime) network.Buffer {
		return network.Buffer{Name: mamba + name, Shape: network.Dims{s, features}, Lifetime: lifetime, Sharded: true}
	}
	width := 2*inner + shared + m.MambaHeads
	buffers := []network.Buffer{
		{
			Name: mamba + "in_proj.input", Shape: network.Dims{s, m.Hidden}, Lifetime: network.ForwardToWeight,
			Modules: network.Norms,
		},
		sharded("in_proj.output", width, network.ForwardToInput), sharded("scan.output", inner, network.ForwardToInput),
		sharded("out_proj.input", inner, network.ForwardToWeight),
		sharded("in_proj.output_gradient", width, network.InputToWeight),
	}
	if m.mambaNorm() {
		buffers = append(buffers, sharded("norm.input", inner, network.ForwardToInput))
	}
	return buffers
}

// mambaEstimate returns an upper bound of what a scan moves or keeps of a token, as Model.estimate does.
func (m Model) mambaEstimate() float64 {
	p, n, q := float64(m.MambaHeadDim), float64(m.MambaStates), float64(m.MambaChunk)
	return float64(m.MambaHeads)*(3*p+2+3*n*p/max(1, q)) + 2*float64(m.MambaGroups)*(2*n+q)
}

// checkMamba requires all keys of Mamba-2 mixers, or none.
func (m Model) checkMamba() error {
	given := []int{m.MambaHeads, m.MambaHeadDim, m.MambaStates, m.MambaGroups, m.MambaConvolution}
	missing := 0
	for _, n := range given {
		if n == 0 {
			missing++
		}
	}
	switch {
	case missing == len(given) && m.MambaChunk == 0:
		return nil
	case missing > 0:
		return errors.New("mamba_heads: a Mamba-2 mixer needs mamba_heads, mamba_head_dim, mamba_states, " +
			"mamba_groups and mamba_convolution")
	case m.MambaHeads%m.MambaGroups != 0:
		return fmt.Errorf("mamba_groups = %d: must divide mamba_heads = %d", m.MambaGroups, m.MambaHeads)
	case m.Pattern == "":
		return errors.New("mamba_heads: needs pattern, which says which blocks have Mamba-2 mixers")
	}
	return nil
}

// checkMambaContext requires equally many groups for every device that exchanges tokens for heads.
func (m Model) checkMambaContext(g group.Group) error {
	if m.mambas() && m.MambaGroups%g.All() != 0 {
		return fmt.Errorf("mamba_groups = %d: parallel.context × parallel.tensor = %d must divide them, because "+
			"Mamba-2 mixers exchange tokens for heads", m.MambaGroups, g.All())
	}
	return nil
}

// mambaSettings describes the keys of Mamba-2 mixers.
func mambaSettings() []setting.Setting {
	size := setting.Between(0, maxSize)
	row := func(key, example, unset, text string) setting.Setting {
		return setting.Setting{Key: key, Example: example, Range: size, With: llamas(), Unset: unset, Text: text}
	}
	const none = "no block has a mixer"
	return []setting.Setting{
		row("mamba_heads", "64", none, "Mamba-2 mixers, in the blocks that pattern names: their heads"),
		row("mamba_head_dim", "64", none, "features of a head"),
		row("mamba_states", "128", none, "states of a feature"),
		row("mamba_groups", "8", none, "groups of heads, which share what writes states and what reads them"),
		row("mamba_convolution", "4", none, "tokens that their convolution sees"),
		row("mamba_chunk", "256", "128", "tokens of a chunk of their scan"),
		{
			Key: "mamba_norm", Example: "false", With: llamas(), Unset: "true",
			Text: "whether a norm follows their scan; in Falcon-H1 none does",
		},
	}
}
