package models

import (
	"errors"
	"fmt"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/internal/setting"
)

// The gated delta net (Yang et al. 2024, Gated Delta Networks) takes the place of attention in most blocks
// of Qwen3-Next and Qwen3.5. Every head of values has a state of key × value features, which each token decays
// and corrects; queries and keys have as many heads or fewer. A product makes queries, keys, values and a gate,
// another the decays and the strengths of corrections. Queries, keys and values go through a causal convolution of
// each feature; the scan follows; its result is normed and gated, and projected. A tensor-parallel group divides
// the heads. A context-parallel group exchanges tokens for heads before the convolution and after the norm
// (Megatron-LM, ssm/gated_delta_net/gdn.py).
//
// The scan is that of flash-linear-attention (ops/gated_delta_rule/chunk.py): tokens in chunks of 64,
// products inside a chunk, the inverse of a triangular matrix of a chunk, and products with the state
// between chunks. The backward makes what is inside a chunk and the states again, so that only the inverse
// is kept. In the counts below, which are of a token and a head of values, c is the chunk, k and v are the
// features of a key and a value. A chunk has one state, of k × v features.

const (
	deltaChunk = 64 // tokens of a chunk (chunk_gated_delta_rule)
	deltaTile  = 16 // rows of the tiles of a chunk's triangular matrix (chunk_fwd.py)
)

const linear = "linear_attn."

// delta reports whether the model, or the block, has gated delta nets.
func (m Model) delta() bool { return m.DeltaValueHeads > 0 }

// deltaSizes returns the features of all keys and of all values.
func (m Model) deltaSizes() (keys, values int) {
	return m.DeltaKeyHeads * m.DeltaKeyDim, m.DeltaValueHeads * m.DeltaValueDim
}

// deltaParams lists the tensors of a gated delta net, without the projection of its results.
func deltaParams(m Model) []network.Tensor {
	if m.channels() {
		return kimiParams(m)
	}
	keys, values := m.deltaSizes()
	params := columnProjection(linear+"in_proj_qkvz", m.Hidden, 2*keys+2*values, false)
	params = append(params, columnProjection(linear+"in_proj_ba", m.Hidden, 2*m.DeltaValueHeads, false)...)
	perHead := func(name string) network.Tensor {
		return network.Tensor{Name: linear + name, Shape: network.Dims{m.DeltaValueHeads}, Sharded: true, Norm: true}
	}
	return append(params,
		network.Tensor{
			Name: linear + "conv1d.weight", Shape: network.Dims{2*keys + values, 1, m.DeltaConvolution}, Sharded: true,
			Norm: true,
		},
		perHead("scan.dt_bias"), perHead("scan.A_log"), gain(linear+"norm", m.DeltaValueDim))
}

// deltaOps makes the operations of a gated delta net, without that projection.
func deltaOps(m Model) []network.Op {
	s, h, heads := m.SequenceLength, m.Hidden, m.DeltaValueHeads
	keys, values := m.deltaSizes()
	// The convolution with its activation function is a kernel. I makes its result again, and adds up the gradients
	// of its few weights. Decays are in fp32. The norm and the gate are a kernel.
	convolution := network.NewElementwise(linear+"conv1d", elements(s, 2*keys+values), traffic(2, 2), traffic(4, 2))
	decays := network.NewElementwise(linear+"decays", elements(s, 2*heads), traffic(2, 3), traffic(5, 2))
	norm := network.NewElementwise(linear+"norm", elements(s, values), traffic(4, 2), traffic(6, 4))
	last := append([]network.Op{m.deltaScan(), norm.Divided()}, m.toHeads(linear+"to_tokens", elements(s, values))...)
	if m.channels() {
		return append(kimiOps(m), last...)
	}
	ops := []network.Op{
		m.linear(linear+"in_proj_qkvz", matmul{s, h, 2*keys + 2*values}, false).Entering(),
		m.linear(linear+"in_proj_ba", matmul{s, h, 2 * heads}, false),
	}
	ops = append(ops, m.toHeads(linear+"to_heads", elements(s, 2*keys+2*values+2*heads))...)
	return append(append(ops, convolution.Divided(), decays.Divided()), last...)
}

// deltaScan makes the scan in all its kernels.
//
// F: the tiles on and below the diagonal of the products of keys with keys, and the inverse by tiles; the inverse
// with keys and with values; three products with the state; queries with keys, and that with values. I: the
// products with the inverse and the states again; the gradients of all of these.
func (m Model) deltaScan() network.Op {
	k, v, c := int64(m.DeltaKeyDim), int64(m.DeltaValueDim), int64(deltaChunk)
	keys, values := m.deltaSizes()
	s := int64(m.SequenceLength)
	n := s * int64(m.DeltaValueHeads)
	lower, inverse := triangularWork(deltaChunk/deltaTile, deltaTile, m.DeltaKeyDim)
	states := n * k * v / c
	op := network.Op{
		Name: linear + "scan", Class: network.Scan, Inner: k, Values: v,
		Count:    int64(m.DeltaValueHeads / m.parts.ContextParts()),
		Elements: s * int64(values), Numbers: network.Mixed,
		Work: [3]float64{
			network.Forward:       float64(n)*float64(c*(2*k+2*v)+3*k*v) + float64(n)/float64(c)*float64(lower+inverse),
			network.InputGradient: float64(n) * float64(c*(9*k+5*v)+8*k*v+2*c*c),
		},
		Launches: [3]int{network.Forward: 7, network.InputGradient: 11},
	}
	// The norms of queries and keys are kernels of the scan: F reads and writes both, I reads four and writes two.
	norms := 2 * s * int64(keys)
	op.Writes = [3]int64{
		network.Forward: norms + n*(k+3*v+c) + states, network.InputGradient: norms + n*(6*k+5*v) + 2*states,
	}
	op.Moved = [3]int64{
		network.Forward:       op.Writes[network.Forward] + norms + n*(6*k+3*v+c) + states,
		network.InputGradient: op.Writes[network.InputGradient] + 2*norms + n*(14*k+10*v+2*c) + 2*states,
	}
	if m.channels() {
		op = m.withChannels(op)
	}
	return op.Divided()
}

// triangularWork counts the multiply-adds for a triangular matrix of t × t tiles: products over k features for the
// tiles on and below the diagonal, and the inverse, in which a tile d below the diagonal takes d + 1 products of tiles.
func triangularWork(t, tile, k int) (lower, inverse int) {
	products := 0
	for d := 1; d < t; d++ {
		products += (t - d) * (d + 1)
	}
	return t * (t + 1) / 2 * tile * tile * k, products * tile * tile * tile
}

// deltaBuffers lists what a gated delta net keeps: what its products and kernels read in the backward.
func deltaBuffers(m Model) []network.Buffer {
	if m.channels() {
		return kimiBuffers(m)
	}
	s, heads := m.SequenceLength, m.DeltaValueHeads
	keys, values := m.deltaSizes()
	sharded := func(name string, features int) network.Buffer {
		return network.Buffer{Name: linear + name, Shape: network.Dims{s, features}, Sharded: true}
	}
	decays, out := sharded("decays", heads), sharded("out_proj.input", values)
	decays.ElementBytes, out.Lifetime = 4, network.ForwardToWeight
	gradient := sharded("in_proj.output_gradient", 2*keys+2*values+2*heads)
	gradient.Lifetime = network.InputToWeight
	return []network.Buffer{
		{
			Name: linear + "in_proj.input", Shape: network.Dims{s, m.Hidden}, Lifetime: network.ForwardToWeight,
			Modules: network.Norms,
		},
		sharded("in_proj_qkvz.output", 2*keys+2*values), sharded("in_proj_ba.output", 2*heads),
		sharded("q", keys), sharded("k", keys), sharded("v", values), decays, sharded("strengths", heads),
		sharded("inverse", heads*deltaChunk), sharded("scan.output", values), out, gradient,
	}
}

// deltaEstimate returns an upper bound of what a scan moves or keeps of a token, as Model.estimate does.
func (m Model) deltaEstimate() float64 {
	k, v := float64(m.DeltaKeyDim), float64(m.DeltaValueDim)
	return float64(m.DeltaValueHeads) * (4*k + 2*v + deltaChunk + k*v/16)
}

// checkDelta requires all keys of a gated delta net, or none.
func (m Model) checkDelta() error {
	given := []int{m.DeltaKeyHeads, m.DeltaValueHeads, m.DeltaKeyDim, m.DeltaValueDim, m.DeltaConvolution}
	missing := 0
	for _, n := range given {
		if n == 0 {
			missing++
		}
	}
	switch {
	case m.AttentionGate && m.latent():
		return errors.New("attention_gate = true: psim does not model a gate of latent attention; remove one of " +
			"the two")
	case m.SharedExpertGate && m.SharedExperts == 0:
		return errors.New("shared_expert_gate = true: has no meaning without shared_experts")
	case missing == len(given):
		return m.checkChannels()
	case missing > 0:
		return errors.New("delta_value_heads: a gated delta net needs delta_key_heads, delta_value_heads, " +
			"delta_key_dim, delta_value_dim and delta_convolution")
	case m.DeltaValueHeads%m.DeltaKeyHeads != 0:
		return fmt.Errorf("delta_key_heads = %d: must divide delta_value_heads = %d", m.DeltaKeyHeads,
			m.DeltaValueHeads)
	case m.Window > 0:
		return fmt.Errorf("window = %d: has no meaning with gated delta nets; remove one of the two", m.Window)
	case m.latent() && m.Pattern == "":
		return fmt.Errorf("kv_lora_rank = %d: psim does not model latent attention and gated delta nets in one "+
			"network without pattern; remove one of the two", m.KVLoraRank)
	case m.ParallelBlock:
		return errors.New("parallel_block = true: has no meaning with gated delta nets")
	}
	return m.checkChannels()
}

// checkDeltaContext requires equally many heads for every device that exchanges tokens for heads.
func (m Model) checkDeltaContext(g group.Group) error {
	if err := m.checkChannelsOn(g); err != nil {
		return err
	}
	if m.delta() && m.DeltaKeyHeads%g.All() != 0 {
		return fmt.Errorf("delta_key_heads = %d: parallel.context × parallel.tensor = %d must divide them, because "+
			"gated delta nets exchange tokens for heads", m.DeltaKeyHeads, g.All())
	}
	return nil
}

// deltaSettings describes the keys of gated delta nets.
func deltaSettings() []setting.Setting {
	size := setting.Between(0, maxSize)
	row := func(key, example, text string) setting.Setting {
		return setting.Setting{
			Key: key, Example: example, Range: size, With: llamas(), Unset: "all blocks have attention", Text: text,
		}
	}
	return []setting.Setting{
		row("delta_key_heads", "16", "gated delta nets in place of attention, except in every full_attention_every-th "+
			"block (Qwen3-Next): heads of their keys"),
		row("delta_value_heads", "32", "heads of their values, each with a state"),
		row("delta_key_dim", "128", "features of a key"),
		row("delta_value_dim", "128", "features of a value"),
		row("delta_convolution", "4", "tokens that their convolution sees"),
		{
			Key: "delta_channels", Default: false, With: llamas(),
			Text: "every feature of a key has a decay of its own, as in Kimi Linear",
		},
		{
			Key: "attention_gate", Default: false, With: llamas(),
			Text: "the result of attention is multiplied with a sigmoid that the projection of queries makes, too",
		},
		{
			Key: "shared_expert_gate", Default: false, With: []string{FamilyMixtral},
			Text: "the result of the shared experts is multiplied with a sigmoid that one feature gives (Qwen 2 MoE)",
		},
	}
}

// Kimi delta attention (Kimi Team 2025, Kimi Linear) is a gated delta net in which every feature of a key has a
// decay of its own. Decays and the gate are made from vectors of few features, each by two products. The kernels
// are those of flash-linear-attention (ops/kda): those of the gated delta net with decays of every feature in
// fp32, queries and keys with their decays, and the products of queries with keys of a chunk, which are kept.

// channels reports whether the model, or the block, has Kimi delta attention.
func (m Model) channels() bool { return m.DeltaChannels && m.delta() }

// kimiParams lists the tensors, without the projection of the results.
func kimiParams(m Model) []network.Tensor {
	h, k, v := m.Hidden, m.DeltaKeyDim, m.DeltaValueDim
	keys, values := m.deltaSizes()
	params := columnProjection(linear+"in_proj_qkv", h, 2*keys+values, false)
	params = append(params, columnProjection(linear+"b_proj", h, m.DeltaValueHeads, false)...)
	params = append(params, wholeProjection(linear+"f_a_proj", h, k, false)...)
	params = append(params, columnProjection(linear+"f_b_proj", k, keys, false)...)
	params = append(params, wholeProjection(linear+"g_a_proj", h, v, false)...)
	params = append(params, columnProjection(linear+"g_b_proj", v, values, false)...)
	vector := func(name string, shape ...int) network.Tensor {
		return network.Tensor{Name: linear + name, Shape: shape, Sharded: true, Norm: true}
	}
	return append(params, vector("conv1d.weight", 2*keys+values, 1, m.DeltaConvolution), vector("scan.dt_bias", keys),
		vector("scan.A_log", m.DeltaValueHeads), gain(linear+"norm", v))
}

// kimiOps makes the products before the scan, and the decays.
func kimiOps(m Model) []network.Op {
	s, h, k, v := m.SequenceLength, m.Hidden, m.DeltaKeyDim, m.DeltaValueDim
	keys, values := m.deltaSizes()
	ops := []network.Op{
		m.linear(linear+"in_proj_qkv", matmul{s, h, 2*keys + values}, false).Entering(),
		m.linear(linear+"b_proj", matmul{s, h, m.DeltaValueHeads}, false),
		m.linear(linear+"f_a_proj", matmul{s, h, k}, false).Undivided(),
		m.linear(linear+"f_b_proj", matmul{s, k, keys}, false).Entering(),
		m.linear(linear+"g_a_proj", matmul{s, h, v}, false).Undivided(),
		m.linear(linear+"g_b_proj", matmul{s, v, values}, false).Entering(),
	}
	ops = append(ops, m.toHeads(linear+"to_heads", elements(s, 3*keys+2*values+m.DeltaValueHeads))...)
	convolution := network.NewElementwise(linear+"conv1d", elements(s, 2*keys+values), traffic(2, 2), traffic(4, 2))
	decays := network.NewElementwise(linear+"decays", elements(s, keys), traffic(2, 4), traffic(6, 2))
	return append(ops, convolution.Divided(), decays.Divided())
}

// withChannels adds to a scan what its kernels move for decays of every feature. In F the kernel of a chunk's
// products reads queries and decays and writes the products of queries; that which applies the inverse reads both,
// too, and writes queries and keys with their decays; the last reads the products. I makes queries and keys with
// their decays again, and its kernels read decays four times, write their gradients three times and read them twice.
func (m Model) withChannels(scan network.Op) network.Op {
	n := int64(m.SequenceLength) * int64(m.DeltaValueHeads)
	k, c := int64(m.DeltaKeyDim), int64(deltaChunk)
	const fp32 = 2 // numbers of 16 bits
	// Of F and I.
	write := [2]int64{n * (2*k + c), n * (2*k + 3*fp32*k)}
	read := [2]int64{n * (2*k + 2*fp32*k + c), n * (3*k + 6*fp32*k + c)}
	for p := range write {
		scan.Writes[p] += write[p]
		scan.Moved[p] += write[p] + read[p]
	}
	return scan
}

// kimiBuffers lists what is kept.
func kimiBuffers(m Model) []network.Buffer {
	s, heads := m.SequenceLength, m.DeltaValueHeads
	keys, values := m.deltaSizes()
	sharded := func(name string, features int, lifetime network.Lifetime) network.Buffer {
		return network.Buffer{Name: linear + name, Shape: network.Dims{s, features}, Lifetime: lifetime, Sharded: true}
	}
	kept, weight, input := network.ForwardToInput, network.ForwardToWeight, network.InputToWeight
	return []network.Buffer{
		{
			Name: linear + "in_proj.input", Shape: network.Dims{s, m.Hidden}, Lifetime: weight, Modules: network.Norms,
		},
		sharded("in_proj_qkv.output", 2*keys+values, kept), sharded("b_proj.output", heads, kept),
		{Name: linear + "f_b_proj.input", Shape: network.Dims{s, m.DeltaKeyDim}, Lifetime: weight},
		{Name: linear + "g_b_proj.input", Shape: network.Dims{s, m.DeltaValueDim}, Lifetime: weight},
		sharded("f_b_proj.output", keys, kept), sharded("g_b_proj.output", values, kept),
		sharded("q", keys, kept), sharded("k", keys, kept), sharded("v", values, kept),
		sharded("strengths", heads, kept),
		sharded("products", heads*deltaChunk, kept), sharded("inverse", heads*deltaChunk, kept),
		sharded("scan.output", values, kept), sharded("out_proj.input", values, weight),
		sharded("in_proj.output_gradient", 3*keys+2*values+heads, input),
		{
			Name:  linear + "a_proj.output_gradient",
			Shape: network.Dims{s, m.DeltaKeyDim + m.DeltaValueDim}, Lifetime: input, Local: true,
		},
	}
}

// checkChannels requires a head of keys for every head of values.
func (m Model) checkChannels() error {
	switch {
	case !m.DeltaChannels:
		return nil
	case !m.delta():
		return errors.New("delta_channels = true: has no meaning without gated delta nets (delta_value_heads)")
	case m.DeltaKeyHeads != m.DeltaValueHeads:
		return fmt.Errorf("delta_channels = true: needs as many delta_key_heads = %d as delta_value_heads = %d",
			m.DeltaKeyHeads, m.DeltaValueHeads)
	}
	return nil
}

// checkChannelsOn refuses groups of devices over which the vectors of decays and gates are not modelled.
func (m Model) checkChannelsOn(g group.Group) error {
	if m.DeltaChannels && g.ContextParts() > 1 {
		return fmt.Errorf("delta_channels = true: psim does not model parallel.context = %d with it; set "+
			"parallel.context = 1", g.ContextParts())
	}
	return nil
}
