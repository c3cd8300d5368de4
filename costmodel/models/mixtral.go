package models

import (
	"math"
	"strconv"
	"strings"

	"psim/costmodel/network"
)

// A mixture of experts in the place of a Llama block's MLP (Mixtral, Jiang et
// al. 2024): a router picks k of E gated MLPs for every token and weights their
// results. Tokens are sorted by expert, none is dropped unless there is a capacity, and
// all experts are taken to have equally many, so that their products work on s·k rows in
// all. Shared experts are one MLP of their widths together, which every token goes through
// (DeepSeek-V2, Liu et al. 2024, section 2.2).
// A tensor-parallel group divides each expert as it would one MLP, and each of its
// devices routes all tokens, unless experts are on other devices (see experts.go).

const sharedExperts = "mlp.shared_experts."

// expertParams lists the tensors of experts, named as in Hugging Face's checkpoint of Mixtral.
func expertParams(m Model) []network.Tensor {
	h, f := m.Hidden, m.expertHidden()
	params := projection("block_sparse_moe.gate", h, m.Experts, m.MLPBias, false)
	if m.RouterBias {
		params = append(params, network.Tensor{Name: "block_sparse_moe.gate.correction", Shape: network.Dims{m.Experts}, Norm: true})
	}
	for e := range m.Experts {
		prefix := "block_sparse_moe.experts." + strconv.Itoa(e) + "."
		first := len(params)
		params = append(params, projection(prefix+"w1", h, f, m.MLPBias, true)...)
		params = append(params, projected(prefix+"w2", f, h, m.MLPBias)...)
		params = append(params, projection(prefix+"w3", h, f, m.MLPBias, true)...)
		for i := range params[first:] {
			params[first+i].Expert = true
		}
	}
	if m.SharedExperts > 0 {
		params = append(params, gatedParams(sharedExperts, h, m.SharedExperts*f, false)...)
	}
	return params
}

func expertOps(m Model) []network.Op {
	s, h, f, k, n := m.SequenceLength, m.Hidden, m.expertHidden(), m.ExpertsPerToken, m.routedRows()
	ops := []network.Op{
		m.linear("block_sparse_moe.gate", s, h, m.Experts, m.MLPBias).Entering().Undivided().In16Bits(),
		network.NewElementwise("mlp.softmax", elements(s, m.Experts), traffic(2, 2), traffic(4, 2)),
		network.NewElementwise("mlp.sort", elements(n, h), traffic(2, 2), traffic(2, 2)),
		m.experts(m.linear("block_sparse_moe.experts.w1", n, h, f, m.MLPBias)),
		m.experts(m.linear("block_sparse_moe.experts.w3", n, h, f, m.MLPBias)),
	}
	kernels := m.kernels()
	ops[1].Launches = [3]int{network.Forward: kernels.Router, network.InputGradient: kernels.Router}
	ops[len(ops)-1].Fused = kernels.ExpertByExpert
	ops = append(ops, m.expertClamps(n, f)...)
	ops = append(ops,
		m.activation("mlp.experts.silu", n, f).Of(network.ExpertActivation),
		m.gate("mlp.experts.gate", n, f).Of(network.ExpertActivation),
		m.experts(m.linear("block_sparse_moe.experts.w2", n, f, h, m.MLPBias)),
	)
	ops[len(ops)-1].RowParallel = true
	ops = append(ops, m.expertBias(n, h)...)
	// The weighted sum reads k rows per token and writes one; its I reads them
	// again, for the gradients of the weights, and that one's, and writes k.
	again, read := int64(k), int64(k+min(1, m.SharedExperts))
	if m.weighsInside() {
		again = 0
	}
	sum := network.NewElementwise("mlp.sum", elements(s, h), traffic(2*read, 2), traffic(2*again+2, 2*int64(k)))
	sum.Leaves = true
	ops = append(ops, sum)
	for i := range ops {
		ops[i].Routed = network.ByToken
		if i > 2 && i < len(ops)-1 {
			ops[i].Routed = network.ByExpert
		}
	}
	return append(sharedOps(m), ops...)
}

// expertBias adds biases to what experts made: expert by expert and in fp32, because they are
// weighted by the router's probabilities first. F weights a
// bias, adds it, joins the experts and converts the result: 28 bytes for an element. I
// converts, and multiplies and sums for the gradients of the biases and of their weights: 36.
func (m Model) expertBias(n, h int) []network.Op {
	if !m.MLPBias || !m.kernels().ExpertByExpert {
		return nil
	}
	bias := network.NewElementwise("mlp.experts.bias", elements(n, h), traffic(14, 14), traffic(22, 14))
	bias.Numbers = network.Mixed
	return []network.Op{m.experts(bias)}
}

// expertClamps bounds what goes into the function and its gate, where experts have biases as
// GPT-OSS's: two kernels, and one that joins their results; so with their gradients.
func (m Model) expertClamps(n, f int) []network.Op {
	if !m.MLPBias || !m.kernels().ExpertByExpert {
		return nil
	}
	return network.Within(network.ExpertActivation, []network.Op{moves{forward: traffic(8, 8), input: traffic(12, 8), kernels: 3, inverse: 3}.op("mlp.experts.clamp", elements(n, f))})
}

// sharedOps makes the experts that every token goes through, whose result is summed with the
// others'. A tensor-parallel group divides them as it would an MLP.
func sharedOps(m Model) []network.Op {
	if m.SharedExperts == 0 {
		return nil
	}
	s, h, f := m.SequenceLength, m.Hidden, m.SharedExperts*m.expertHidden()
	return network.Within(network.SharedExperts, []network.Op{
		m.linear(sharedExperts+"gate_proj", s, h, f, false).Entering(),
		m.linear(sharedExperts+"up_proj", s, h, f, false),
		m.activation(sharedExperts+"silu", s, f),
		m.gate(sharedExperts+"gate", s, f),
		m.linear(sharedExperts+"down_proj", s, f, h, false).Leaving(),
	})
}

// routedRows counts the rows of all experts: of every token one for each that it goes
// through, or as many as they have a capacity for.
func (m Model) routedRows() int {
	n := m.SequenceLength * m.ExpertsPerToken
	if m.Capacity > 0 {
		n = int(math.Ceil(float64(n) * m.Capacity))
	}
	return n
}

// experts makes a product one of all experts.
func (m Model) experts(o network.Op) network.Op {
	o.Experts, o.KernelPerExpert = int64(m.Experts), m.kernels().ExpertByExpert
	return o
}

// weighsInside reports whether a token's weights are multiplied with what the activation
// function returns, so that the gradients of weights need no results of experts.
func (m Model) weighsInside() bool { return m.kernels().ExpertByExpert }

func expertBuffers(m Model) []network.Buffer {
	s, h, n := m.SequenceLength, m.Hidden, m.routedRows()
	inside := m.gatedBuffers("mlp.experts.", n, m.expertHidden())
	for i := range inside {
		inside[i].Routed = network.ByExpert
		switch strings.TrimPrefix(inside[i].Name, "mlp.experts.") {
		case "silu.output", "down_proj.input":
			inside[i].Modules = network.ExpertActivation
		}
	}
	buffers := append([]network.Buffer{
		{Name: "mlp.router.probabilities", Shape: network.Dims{s, m.Experts}, Gathered: true, Routed: network.ByToken},
		{Name: "mlp.router.output_gradient", Shape: network.Dims{s, m.Experts}, Lifetime: network.InputToWeight, Routed: network.ByToken},
		{Name: "mlp.experts.input", Shape: network.Dims{n, h}, Lifetime: network.ForwardToWeight, Gathered: true, Routed: network.ByExpert},
		{Name: "mlp.experts.output_gradient", Shape: network.Dims{n, h}, Lifetime: network.InputToWeight, Routed: network.ByExpert},
	}, inside...)
	if !m.weighsInside() {
		buffers = append(buffers, network.Buffer{Name: "mlp.experts.output", Shape: network.Dims{n, h}, Gathered: true, Routed: network.ByToken})
	}
	if m.SharedExperts == 0 {
		return buffers
	}
	buffers = append(buffers, network.BuffersWithin(network.SharedExperts, m.gatedBuffers(sharedExperts, s, m.SharedExperts*m.expertHidden()))...)
	return append(buffers, network.Buffer{Name: sharedExperts + "down_proj.output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight})
}
