package models

import "psim/costmodel/network"

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
	return []network.Buffer{
		{
			Name: "block_sparse_moe.gate.input", Shape: shape, Lifetime: network.ForwardToWeight,
			Modules: network.Mixture,
		},
		{Name: denseNorm + ".input", Shape: shape}, {Name: mixtureNorm + ".input", Shape: shape},
	}
}
