package models

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// A mixture of experts replaces the MLP of a Llama block (Mixtral, Jiang et al. 2024): a router picks
// k of E MLPs for every token and weights their results. Tokens are sorted by expert. No token
// is dropped unless there is a capacity, and all experts are assumed to get equally many tokens, so
// that their products have s·k rows in total. Shared experts form one MLP with the sum of their
// widths, which every token goes through (DeepSeek-V2, Liu et al. 2024, section 2.2). A
// tensor-parallel group divides each expert like an MLP, and each of its devices routes all tokens,
// unless experts are on other devices (see experts.go).

const (
	sharedExperts = "mlp.shared_experts."
	sharedGate    = "mlp.shared_expert_gate"
	toLatent      = "mlp.fc1_latent_proj"
	fromLatent    = "mlp.fc2_latent_proj"
)

// expertParams lists the tensors of experts, with the names of Hugging Face's checkpoint of Mixtral.
func expertParams(m Model) []network.Tensor {
	h, f := m.expertWidth(), m.expertHidden()
	params := wholeProjection("block_sparse_moe.gate", m.Hidden, m.Experts, m.MLPBias)
	if m.ExpertLatent > 0 {
		params = append(params, wholeProjection(toLatent, m.Hidden, h, m.MLPBias)...)
		params = append(params, wholeProjection(fromLatent, h, m.Hidden, m.MLPBias)...)
	}
	if m.DenseBeside {
		params = append(params, besideParams(m)...)
	}
	if m.RouterBias {
		params = append(params, network.Tensor{
			Name: "block_sparse_moe.gate.correction", Shape: network.Dims{m.Experts}, Norm: true,
		})
	}
	// All experts share the shapes of one: a deep network of many has millions of tensors.
	one := append(columnProjection("w1", h, f, m.MLPBias), rowProjection("w2", f, h, m.MLPBias)...)
	if m.gated() {
		one = append(one, columnProjection("w3", h, f, m.MLPBias)...)
	}
	params = slices.Grow(params, m.Experts*len(one))
	for e := range m.Experts {
		prefix := "block_sparse_moe.experts." + strconv.Itoa(e) + "."
		for _, t := range one {
			t.Name, t.Expert = prefix+t.Name, true
			params = append(params, t)
		}
	}
	if m.SharedExperts > 0 {
		params = append(params, m.mlpParams(sharedExperts, m.SharedExperts*f, false)...)
		if m.SharedExpertGate {
			params = append(params, wholeProjection(sharedGate, m.Hidden, 1, false)...)
		}
	}
	return params
}

func expertOps(m Model) []network.Op {
	s, h, f, k, n := m.SequenceLength, m.expertWidth(), m.expertHidden(), m.ExpertsPerToken, m.routedRows()
	ops := []network.Op{
		m.linear("block_sparse_moe.gate", matmul{s, m.Hidden, m.Experts}, m.MLPBias).Entering().Undivided().In16Bits(),
		network.NewElementwise("mlp.softmax", elements(s, m.Experts), traffic(2, 2), traffic(4, 2)),
		network.NewElementwise("mlp.sort", elements(n, h), traffic(2, 2), traffic(2, 2)),
		m.experts(m.linear("block_sparse_moe.experts.w1", matmul{n, h, f}, m.MLPBias)),
	}
	kernels := m.kernels()
	ops[1].Launches = [3]int{network.Forward: kernels.Router, network.InputGradient: kernels.Router}
	between := []network.Op{m.activation(m.function("mlp.experts."), n, f)}
	if m.gated() {
		up := m.experts(m.linear("block_sparse_moe.experts.w3", matmul{n, h, f}, m.MLPBias))
		up.Fused = kernels.ExpertByExpert
		ops = append(ops, up)
		between = append(between, m.gate("mlp.experts.gate", n, f))
	}
	ops = append(ops, m.expertClamps(n, f)...)
	ops = append(ops, network.Within(network.ExpertActivation, between)...)
	ops = append(ops, m.experts(m.linear("block_sparse_moe.experts.w2", matmul{n, f, h}, m.MLPBias)))
	ops[len(ops)-1].RowParallel = true
	ops = append(ops, m.expertBias(n, h)...)
	// The weighted sum reads k rows per token and writes one. I reads these rows again, for the
	// gradients of the weights, and the gradient of the sum, and writes k rows.
	again, read := int64(k), int64(k)
	if m.SharedExperts > 0 && m.ExpertLatent == 0 {
		read++
	}
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
	return append(sharedOps(m), m.withLatent(ops)...)
}

// withLatent puts the projections of experts with few features around what routes tokens. Every device of a
// tensor-parallel group makes those of its tokens (Megatron-LM, transformer/moe/moe_layer.py). The result of shared
// experts is added after them.
func (m Model) withLatent(routed []network.Op) []network.Op {
	if m.ExpertLatent == 0 {
		return routed
	}
	s, h := m.SequenceLength, m.Hidden
	ops := []network.Op{m.linear(toLatent, matmul{s, h, m.ExpertLatent}, m.MLPBias).Undivided()}
	ops = append(append(ops, routed...), m.linear(fromLatent, matmul{s, m.ExpertLatent, h}, m.MLPBias).Undivided())
	if m.SharedExperts > 0 {
		ops = append(ops, m.residual("mlp.add_shared", s, h))
	}
	return ops
}

// latentExpertBuffers lists what these projections keep.
func (m Model) latentExpertBuffers() []network.Buffer {
	if m.ExpertLatent == 0 {
		return nil
	}
	s, latent := m.SequenceLength, network.Dims{m.SequenceLength, m.ExpertLatent}
	return []network.Buffer{
		{Name: toLatent + ".output_gradient", Shape: latent, Lifetime: network.InputToWeight, Local: true},
		{Name: fromLatent + ".input", Shape: latent, Lifetime: network.ForwardToWeight},
		{
			Name: fromLatent + ".output_gradient", Shape: network.Dims{s, m.Hidden}, Lifetime: network.InputToWeight,
			Local: true,
		},
	}
}

// expertBias adds biases to the results of experts, expert by expert and in fp32, because they are
// weighted by the router's probabilities first. F weights a bias, adds it, joins the experts and
// converts the result: 28 bytes per element. I converts, and multiplies and sums for the gradients
// of the biases and of their weights: 36 bytes.
func (m Model) expertBias(n, h int) []network.Op {
	if !m.MLPBias || !m.kernels().ExpertByExpert {
		return nil
	}
	bias := network.NewElementwise("mlp.experts.bias", elements(n, h), traffic(14, 14), traffic(22, 14))
	bias.Numbers = network.Mixed
	return []network.Op{m.experts(bias)}
}

// expertClamps bounds the inputs of the activation function and of its gate, for experts with biases
// such as those of GPT-OSS: two kernels, and one that joins their results. The same holds for their
// gradients.
func (m Model) expertClamps(n, f int) []network.Op {
	if !m.MLPBias || !m.kernels().ExpertByExpert {
		return nil
	}
	clamp := moves{forward: traffic(8, 8), input: traffic(12, 8), kernels: 3, inverse: 3}
	return network.Within(network.ExpertActivation, []network.Op{clamp.op("mlp.experts.clamp", elements(n, f))})
}

// sharedOps makes the experts that every token goes through. Their result is added to that of the
// other experts. A tensor-parallel group divides them like an MLP.
func sharedOps(m Model) []network.Op {
	if m.SharedExperts == 0 {
		return nil
	}
	ops := m.mlpOps(sharedExperts, m.SharedExperts*m.expertHidden(), false)
	if m.SharedExpertGate {
		s, h := m.SequenceLength, m.Hidden
		ops = append(ops, m.linear(sharedGate, matmul{s, h, 1}, false).Undivided().In16Bits(),
			network.NewElementwise(sharedGate+".scale", elements(s, h), traffic(2, 2), traffic(4, 2)))
	}
	return network.Within(network.SharedExperts, ops)
}

// routedRows counts the rows of all experts: one for every token and expert that it goes through, or
// the capacity of the experts.
func (m Model) routedRows() int {
	n := m.SequenceLength * m.ExpertsPerToken
	if m.Capacity > 0 {
		n = int(math.Ceil(float64(n) * m.Capacity))
	}
	return n
}

// experts makes a product that of all experts.
func (m Model) experts(o network.Op) network.Op {
	o.Experts, o.KernelPerExpert = int64(m.Experts), m.kernels().ExpertByExpert
	return o
}

// weighsInside reports whether a token's weights are multiplied with the result of the activation
// function, so that the gradients of weights do not need the results of experts.
func (m Model) weighsInside() bool { return m.kernels().ExpertByExpert }

func expertBuffers(m Model) []network.Buffer {
	s, h, n := m.SequenceLength, m.expertWidth(), m.routedRows()
	inside := m.gatedBuffers("mlp.experts.", n, m.expertHidden())
	for i := range inside {
		inside[i].Routed = network.ByExpert
		switch strings.TrimPrefix(inside[i].Name, "mlp.experts.") {
		case m.Activation + ".output", "down_proj.input":
			inside[i].Modules = network.ExpertActivation
		}
	}
	buffers := append([]network.Buffer{
		{Name: "mlp.router.probabilities", Shape: network.Dims{s, m.Experts}, Gathered: true, Routed: network.ByToken},
		{
			Name: "mlp.router.output_gradient", Shape: network.Dims{s, m.Experts}, Lifetime: network.InputToWeight,
			Routed: network.ByToken,
		},
		{
			Name: "mlp.experts.input", Shape: network.Dims{n, h}, Lifetime: network.ForwardToWeight, Gathered: true,
			Routed: network.ByExpert,
		},
		{
			Name: "mlp.experts.output_gradient", Shape: network.Dims{n, h}, Lifetime: network.InputToWeight,
			Routed: network.ByExpert,
		},
	}, inside...)
	buffers = m.keptByRouter(buffers)
	if !m.weighsInside() {
		buffers = append(buffers, network.Buffer{
			Name: "mlp.experts.output", Shape: network.Dims{n, h}, Gathered: true, Routed: network.ByToken,
		})
	}
	buffers = append(buffers, m.latentExpertBuffers()...)
	if h = m.Hidden; m.SharedExperts == 0 {
		return buffers
	}
	if m.SharedExpertGate {
		buffers = append(buffers, network.Buffer{Name: sharedGate + ".scale.input", Shape: network.Dims{s, h}},
			network.Buffer{
				Name: sharedGate + ".output_gradient", Shape: network.Dims{s, 1}, Lifetime: network.InputToWeight,
			})
	}
	buffers = append(buffers, network.BuffersWithin(network.SharedExperts,
		m.gatedBuffers(sharedExperts, s, m.SharedExperts*m.expertHidden()))...)
	return append(buffers, network.Buffer{
		Name: sharedExperts + "down_proj.output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight,
	})
}

// In Gemma 4 a block with experts has an MLP as well (transformers, models/gemma4/modeling_gemma4.py). Both begin at
// the input of the block's second half, with a norm each, and end with a norm each before they are summed. The router
// has a norm of its own, and a factor for each expert.

const (
	routerNorm  = "block_sparse_moe.router_norm"
	expertsNorm = "experts_layernorm"
	denseNorm   = "post_mlp_layernorm_1"
	mixtureNorm = "post_mlp_layernorm_2"
)

// besideParams lists the tensors that experts with an MLP next to them have in addition.
func besideParams(m Model) []network.Tensor {
	params := []network.Tensor{
		gain(routerNorm, m.Hidden),
		{Name: "block_sparse_moe.gate.expert_scale", Shape: network.Dims{m.Experts}, Norm: true},
	}
	for _, name := range []string{expertsNorm, denseNorm, mixtureNorm} {
		params = append(params, m.normParams(name, m.Hidden)...)
	}
	return params
}

// besideOps makes an MLP and experts after the norm of the MLP.
func besideOps(m Model) []network.Op {
	s, h := m.SequenceLength, m.Hidden
	ops := append(gatedOps(m), m.anyNorm(denseNorm, s, h))
	mixture := append([]network.Op{m.norm(routerNorm, s, h), m.anyNorm(expertsNorm, s, h)}, expertOps(m)...)
	ops = append(ops, network.Within(network.Mixture, mixture)...)
	return append(ops, m.anyNorm(mixtureNorm, s, h), m.residual("mlp.sum_halves", s, h))
}

// besideBuffers lists what they keep in addition to the experts and the MLP. The norms before both read the input of
// the block's second half.
func besideBuffers(m Model) []network.Buffer {
	shape := network.Dims{m.SequenceLength, m.Hidden}
	buffers := []network.Buffer{
		{
			Name: "block_sparse_moe.gate.input", Shape: shape, Lifetime: network.ForwardToWeight,
			Modules: network.Mixture,
		},
		{Name: denseNorm + ".input", Shape: shape}, {Name: mixtureNorm + ".input", Shape: shape},
	}
	if m.between().keptNorm == nil {
		return buffers
	}
	return append(buffers, // each norm keeps a copy of its own, and the router what its factors are multiplied with
		network.Buffer{Name: routerNorm + ".input", Shape: shape},
		network.Buffer{Name: routerNorm + ".output", Shape: shape},
		network.Buffer{Name: expertsNorm + ".input", Shape: shape})
}

// routing says how the layers of a model choose experts.
func (m Model) routing() group.Routing {
	return group.Routing{
		Experts: m.Experts, PerToken: m.ExpertsPerToken, Imbalance: m.Imbalance, Capacity: m.Capacity,
		Groups: m.ExpertGroups, GroupsPerToken: m.GroupsPerToken,
	}
}

// checkRouting requires the groups of experts to fit the experts.
func (m Model) checkRouting() error {
	switch groups := m.ExpertGroups; {
	case m.ExpertsPerToken > m.Experts:
		return fmt.Errorf("experts_per_token = %d: must be at most experts = %d", m.ExpertsPerToken, m.Experts)
	case m.Experts == 0:
		return nil
	case m.Experts%groups != 0:
		return fmt.Errorf("expert_groups = %d: must divide experts = %d", groups, m.Experts)
	case m.GroupsPerToken > groups:
		return fmt.Errorf("groups_per_token = %d: must be at most expert_groups = %d", m.GroupsPerToken, groups)
	case m.GroupsPerToken*(m.Experts/groups) < m.ExpertsPerToken:
		return fmt.Errorf("groups_per_token = %d: these have %d experts, fewer than experts_per_token = %d",
			m.GroupsPerToken, m.GroupsPerToken*(m.Experts/groups), m.ExpertsPerToken)
	case m.Capacity*float64(m.ExpertsPerToken) > float64(m.Experts):
		return fmt.Errorf("capacity = %g: must be at most experts / experts_per_token = %g, with which every expert "+
			"has room for all tokens", m.Capacity, float64(m.Experts)/float64(m.ExpertsPerToken))
	case m.Capacity > 0 && m.Imbalance > 1:
		return fmt.Errorf("imbalance = %g: with capacity = %g every expert has as many rows as others; remove one "+
			"of the two", m.Imbalance, m.Capacity)
	}
	return nil
}

// checkExperts requires equal shares of experts.
func (m Model) checkExperts(g group.Group) error {
	e, x := g.ExpertParts(), g.ExpertTensorParts()
	switch {
	case !g.Dispatches():
		return nil
	case m.Experts == 0 && g.Expert > 1:
		return fmt.Errorf("experts is missing: parallel.expert = %d divides those of a mixture (family mixtral); "+
			"set parallel.expert = 1", e)
	case m.Experts == 0:
		return nil
	case m.Experts%e != 0:
		return fmt.Errorf("experts = %d: parallel.expert = %d must divide it", m.Experts, e)
	case m.expertHidden()%x != 0:
		return fmt.Errorf("%s = %d: parallel.expert_tensor = %d must divide it", m.expertKey(), m.expertHidden(), x)
	case g.TensorParts() > 1 && !g.Sequence:
		return fmt.Errorf("experts = %d: with parallel.expert = %d and parallel.tensor = %d every device routes a "+
			"part of the sequence; set parallel.sequence = true", m.Experts, e, g.TensorParts())
	}
	return nil
}
