package models

import (
	"errors"
	"fmt"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// Kimi delta attention (Kimi Team 2025, Kimi Linear) is a gated delta net in which every feature of a key has a decay of
// its own. Decays and the gate are made from vectors of few features, each by two products. The kernels are those of
// flash-linear-attention (ops/kda): those of the gated delta net with decays of every feature in fp32, queries and keys
// with their decays, and the products of queries with keys of a chunk kept as well.

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

// withChannels adds to a scan what its kernels move for decays of every feature. In F the kernel of a chunk's products
// reads queries and decays and writes the products of queries; that which applies the inverse reads both, too, and writes
// queries and keys with their decays; the last reads the products. I makes queries and keys with their decays again, and
// its kernels read decays four times and write their gradients three times and read them twice.
func (m Model) withChannels(scan network.Op) network.Op {
	n := int64(m.SequenceLength) * int64(m.DeltaValueHeads)
	k, c := int64(m.DeltaKeyDim), int64(deltaChunk)
	const fp32 = 2 // numbers of 16 bits
	write := [2]int64{network.Forward: n * (2*k + c), network.InputGradient: n * (2*k + 3*fp32*k)}
	read := [2]int64{network.Forward: n * (2*k + 2*fp32*k + c), network.InputGradient: n * (3*k + 6*fp32*k + c)}
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
		sharded("q", keys, kept), sharded("k", keys, kept), sharded("v", values, kept), sharded("strengths", heads, kept),
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
		return fmt.Errorf("delta_channels = true: psim does not model parallel.context = %d with it; set parallel.context = 1",
			g.ContextParts())
	}
	return nil
}
