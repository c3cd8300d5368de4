package models

import (
	"psim/costmodel/network"
	"psim/internal/setting"
)

// The legal values of Model.Loss.
const (
	// LossFull keeps the logarithms of probabilities of all tokens in fp32.
	LossFull = "full"
	// LossChunked keeps all logits in 16 bits, and makes fp32 of the tokens of a chunk at a time
	// (torchtune, modules/loss/ce_chunked_output_loss.py).
	LossChunked = "chunked"
	// LossFused keeps no logits: a chunk's are made and become their gradient in place, and the gradients of
	// the head's input and weight are made at once (Liger-Kernel, ops/fused_linear_cross_entropy.py).
	LossFused = "fused"
)

// lossChunks is the number of chunks of torchtune's loss (num_output_chunks).
const lossChunks = 8

// chunks returns the number of parts in which the loss goes through the tokens. Fused, a part's logits take
// at most the memory of the head's input: a power of two parts, as Liger chooses them.
func (m Model) chunks() int {
	switch m.Loss {
	case LossChunked:
		return lossChunks
	case LossFused:
		n := 1
		for n*m.Hidden < m.Vocab {
			n *= 2
		}
		return n
	}
	return 1
}

// logits lists the buffers of the loss and of the gradient of the logits. Those in fp32 are there when the
// forward ends, and the backward begins with them.
func (m Model) logits() []network.Buffer {
	s, v, parts := m.SequenceLength, m.Vocab, m.chunks()
	part := network.Dims{(s + parts - 1) / parts, v}
	buffer := func(name string, shape network.Dims, bytes int) network.Buffer {
		return network.Buffer{Name: name, Shape: shape, ElementBytes: bytes, Sharded: true}
	}
	gradient := buffer("lm_head.output_gradient", network.Dims{s, v}, 0)
	gradient.Lifetime = network.InputToWeight
	probabilities := buffer("loss.log_probabilities", part, 4)
	targets := tokenIDs("loss.targets", s, network.ForwardToInput)
	switch {
	case m.Loss == LossChunked:
		return []network.Buffer{
			buffer("loss.logits", network.Dims{s, v}, 0), probabilities, buffer("loss.copy", part, 4),
			targets, gradient,
		}
	case m.Loss == LossFused:
		gradient.Shape = part
		return []network.Buffer{
			buffer("loss.logits", part, 0), buffer("loss.copy", part, 4),
			{Name: "loss.input_gradient", Shape: network.Dims{s, m.Hidden}}, targets, gradient,
		}
	case m.FP32Logits:
		return []network.Buffer{
			probabilities, buffer("loss.logits", part, 0), buffer("loss.copy", part, 4), targets, gradient,
		}
	}
	return []network.Buffer{probabilities, targets, gradient}
}

// lossSettings describes the keys of the loss.
func lossSettings() []setting.Setting {
	with := append(transformers(), "file")
	return []setting.Setting{
		{
			Key: "loss", Try: []string{LossChunked, LossFused}, Executed: []string{LossFull},
			Example: `"chunked"`, OneOf: []string{LossFull, LossChunked, LossFused}, With: with, Unset: "full",
			Text: "how logits are kept. full: all of them, with their logarithms of probabilities in fp32. chunked: " +
				"all in 16 bits, in fp32 an eighth at a time (torchtune's chunked loss). fused: none, since head and " +
				"loss go through a part of the tokens at a time and make its gradients at once (Liger's fused linear " +
				"cross entropy)",
		},
		{
			Key: "fp32_logits", Default: false, Executed: []string{"false"}, With: with,
			Text: "true: with loss = \"full\" the logits stay in 16 bits and are copied to fp32, whose gradients are " +
				"in fp32, too, as transformers does; the other losses do so a part at a time in any case",
		},
	}
}
