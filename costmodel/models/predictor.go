package models

import (
	"fmt"

	"psim/costmodel/network"
)

// Multi-token prediction (DeepSeek-V3, DeepSeek-AI 2024, section 2.2): the last block is followed by a
// chain of modules, each of which predicts one more token. A module joins the norms of its input and
// of the next token's embedding, a product makes hidden features of both, and a block and a norm
// follow. Table and head are the model's own. The head takes the results of all modules, one after
// another, as if the sequence were longer; a module therefore passes on its input together with its
// own result. A tensor-parallel group divides the product's columns (Megatron-LM,
// transformer/multi_token_prediction.py). With a pattern a module has attention and an MLP or experts (the pattern
// *E of Nemotron 3). With mtp_shared all modules have the parameters of the first (Nemotron 3 Super).

// predicting returns the model of the block in a module that predicts.
func (m Model) predicting() Model {
	if m.Pattern != "" {
		m.MambaHeads, m.DeltaValueHeads, m.Pattern = 0, 0, ""
		return m
	}
	return m.block(m.Layers - 1)
}

// predictor makes the i-th module around a block's work.
func predictor(m Model, i int, block work) network.Layer {
	s, h, last := m.SequenceLength, m.Hidden, m.predicting()
	name, owner, w := fmt.Sprintf("mtp.%d", i), i, predictorWork(m, block)
	if m.MTPShared {
		owner = 0
	}
	params := append(m.normParams("enorm", h), m.normParams("hnorm", h)...)
	params = append(params, columnProjection("eh_proj", 2*h, h, false)...)
	params = append(append(params, llamaBlockParams(last)...), m.normParams("norm", h)...)
	params = prefixed(fmt.Sprintf("mtp.%d.", owner), params)
	tied := []network.Tensor{{Name: "embed_tokens.weight", Shape: network.Dims{m.Vocab, h}, Sharded: true}}
	if owner != i {
		params, tied = nil, append(params, tied...)
	}
	return network.Layer{
		Name: name, Params: params, Tied: tied, Experts: last.Experts, Active: last.ExpertsPerToken,
		Input: network.Dims{(1 + i) * s, h}, Output: network.Dims{(2 + i) * s, h},
		Ops: w.ops, Buffers: w.buffers, Dropout: m.Dropout, Repeatable: true, KeepsGradient: m.Dropout == 0,
	}
}

// predictorWork adds the operations and buffers of a module to those of its block.
func predictorWork(m Model, block work) work {
	s, h := m.SequenceLength, m.Hidden
	product := m.linear("eh_proj", matmul{s, 2 * h, h}, false).Entering()
	product.Leaves = true
	ops := []network.Op{
		vocabulary("embed_tokens", m.Vocab, s, h), m.anyNorm("enorm", s, h), m.anyNorm("hnorm", s, h),
		network.NewElementwise("join", elements(s, 2*h), traffic(2, 2), traffic(2, 2)), product,
	}
	buffers := []network.Buffer{
		tokenIDs("tokens", s, network.ForwardToWeight),
		{Name: "embed.output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight},
		{Name: "hnorm.input", Shape: network.Dims{s, h}}, {Name: "enorm.input", Shape: network.Dims{s, h}},
		{Name: "eh_proj.joined", Shape: network.Dims{s, 2 * h}, Lifetime: network.ForwardToWeight},
		{Name: "eh_proj.output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight, Sharded: true},
		{Name: "norm.input", Shape: network.Dims{s, h}},
	}
	return work{
		ops: append(append(ops, block.ops...), m.anyNorm("norm", s, h)), buffers: append(buffers, block.buffers...),
	}
}
