package models

import (
	"errors"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/internal/setting"
)

// An encoder such as BERT (Devlin et al. 2018) attends to all tokens of a sample, earlier and later. Its embedding
// adds a row for the kind of each token, and a product, the activation function and the last norm lie before its head
// (transformers, models/bert/modeling_bert.py). The loss is priced over all tokens, as transformers computes logits.

const transform = "transform.dense"

// withTokenTypes adds the table of kinds of tokens to an embedding, if the model has one.
func (m Model) withTokenTypes(layer network.Layer) network.Layer {
	if m.TokenTypes == 0 {
		return layer
	}
	table := network.Dims{m.TokenTypes, m.Hidden}
	layer.Params = append(layer.Params, network.Tensor{Name: "token_type_embeddings.weight", Shape: table})
	layer.Ops = append(layer.Ops, lookup("token_type_embeddings", table, m.SequenceLength, 3))
	layer.Buffers = append(layer.Buffers, tokenIDs("token_types", m.SequenceLength, network.ForwardToWeight))
	return layer
}

// withTransform puts a product and the activation function before the last norm, if the model has them.
func (m Model) withTransform(layer network.Layer) network.Layer {
	if !m.HeadTransform {
		return layer
	}
	s, h := m.SequenceLength, m.Hidden
	product := m.linear(transform, matmul{s, h, h}, true).Undivided()
	layer.Params = append(wholeProjection(transform, h, h, true), layer.Params...)
	layer.Ops = append([]network.Op{product, m.activation("transform."+m.Activation, s, h).Undivided()}, layer.Ops...)
	layer.Buffers = append(layer.Buffers,
		network.Buffer{Name: transform + ".input", Shape: network.Dims{s, h}, Lifetime: network.ForwardToWeight},
		network.Buffer{Name: "transform." + m.Activation + ".input", Shape: network.Dims{s, h}},
		network.Buffer{
			Name: transform + ".output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight,
			Local: true,
		})
	return layer
}

// checkEncoder refuses parts that stand on earlier tokens alone.
func (m Model) checkEncoder() error {
	if m.Bidirectional && (m.Window > 0 || m.sparse() || m.delta() || m.mambas() || m.MTPLayers > 0) {
		return errors.New("bidirectional = true: has no meaning with window, index_topk, gated delta nets, Mamba-2 " +
			"or mtp_layers, which stand on earlier tokens alone")
	}
	return nil
}

// checkEncoderOn refuses sequences in parts, whose chunks are equal work under a causal mask alone.
func (m Model) checkEncoderOn(g group.Group) error {
	if m.Bidirectional && g.ContextParts() > 1 {
		return errors.New("bidirectional = true: psim models parts of a sequence under a causal mask alone; set " +
			"parallel.context = 1")
	}
	return nil
}

// encoderSettings describes the keys of encoders.
func encoderSettings() []setting.Setting {
	llama := llamas()
	return []setting.Setting{
		{
			Key: "bidirectional", Default: false, With: llama,
			Text: "attention sees later tokens as well, as in BERT: fused attention leaves nothing out",
		},
		{
			Key: "token_types", Example: "2", Range: setting.Between(0, maxSize), With: llama, Unset: "no table",
			Text: "rows of a table of kinds of tokens, which the embedding adds, as in BERT",
		},
		{
			Key: "head_transform", Default: false, With: llama,
			Text: "a product of hidden × hidden with a bias, and the activation function, before the last norm (BERT)",
		},
	}
}
