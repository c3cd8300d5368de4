package models

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"psim/costmodel/network"
	"psim/internal/setting"
)

// The form of a block: which norm, activation function, gate, positions and biases it has. A family
// is a set of defaults, and each can be another. What else the families differ in is code: gpt makes
// queries, keys and values by one product, as GPT-2 and Megatron do, and llama by three.

// The legal values of Model.Norm.
const (
	NormLayer = "layer" // gain and bias
	NormRMS   = "rms"   // a gain
)

// The legal values of Model.Activation. All have one kernel; those of ReLU keep less.
const (
	ActivationGELU        = "gelu"
	ActivationSiLU        = "silu"
	ActivationReLU        = "relu"
	ActivationSquaredReLU = "relu2" // Primer, So et al. 2021, section 3
)

// The legal values of Model.PositionEmbedding.
const (
	PositionsLearned = "learned" // a table whose rows are added to those of the tokens
	PositionsRotary  = "rotary"  // Su et al. 2021
	PositionsALiBi   = "alibi"   // a slope of every head inside the softmax (Press et al. 2021)
	PositionsNone    = "none"
)

// withForm sets the form that a family has by default.
func (m Model) withForm() Model {
	gpt := m.Family == FamilyGPT
	word := func(given, ofGPT, other string) string {
		if gpt {
			return cmp.Or(given, ofGPT)
		}
		return cmp.Or(given, other)
	}
	switched := func(given *bool, otherwise bool) *bool {
		if given == nil {
			return &otherwise
		}
		return given
	}
	m.Norm = word(m.Norm, NormLayer, NormRMS)
	m.Activation = word(m.Activation, ActivationGELU, ActivationSiLU)
	m.PositionEmbedding = word(m.PositionEmbedding, PositionsLearned, PositionsRotary)
	m.Gated = switched(m.Gated, !gpt)
	m.LinearBias = switched(m.LinearBias, gpt)
	m.AttentionBias, m.MLPBias = m.AttentionBias || *m.LinearBias, m.MLPBias || *m.LinearBias
	m.Positions = cmp.Or(m.Positions, m.SequenceLength)
	return m
}

// blockFormSettings describes the keys of the form of a block.
func blockFormSettings() []setting.Setting {
	with := transformers()
	return []setting.Setting{
		{
			Key: "norm", Example: `"rms"`, OneOf: []string{NormLayer, NormRMS}, With: with,
			Unset: "layer for gpt, else rms", Text: "layer: norms with gains and biases. rms: RMSNorm, with gains",
		},
		{
			Key: "activation", Example: `"relu"`, With: with, Unset: "gelu for gpt, else silu",
			OneOf: []string{ActivationGELU, ActivationSiLU, ActivationReLU, ActivationSquaredReLU},
			Text: "function inside the MLP and the experts: gelu, silu, relu, or relu2, the square of relu. All take " +
				"equally long; relu keeps only its result for the backward, unless gated",
		},
		{
			Key: "gated", Example: "true", With: with, Unset: "false for gpt, else true",
			Text: "a third product of the MLP makes what the result of the activation function is multiplied with",
		},
		{
			Key: "position_embedding", Example: `"rotary"`, With: with, Unset: "learned for gpt, else rotary",
			OneOf: []string{PositionsLearned, PositionsRotary, PositionsALiBi, PositionsNone},
			Text: "learned: a table of positions. rotary: of queries and keys. alibi: a slope of every head in " +
				"the kernel of attention. none: no operation",
		},
		{
			Key: "linear_bias", Example: "true", With: with, Unset: "true for gpt, else false",
			Text: "biases of all products of a block: those of attention_bias and of mlp_bias",
		},
		{Key: "head_bias", Default: false, With: with, Text: "a bias of the head, as in Phi"},
		{
			Key: "parallel_block", Default: false, With: []string{FamilyLlama},
			Text: "attention and MLP in parallel, with one norm",
		},
		{
			Key: "parallel_norms", Default: false, With: []string{FamilyLlama},
			Text: "with parallel_block, a norm for attention and one for the MLP, as in GPT-NeoX",
		},
		{
			Key: "eager", Example: `"fp32_gains"`, With: with, Unset: "as Llama",
			Text: "what the network's own code does otherwise with kernels = \"eager\", words with commas between: " +
				strings.Join(slices.Sorted(maps.Keys(kernelSet("eager").Between.Forms)), ", "),
		},
		{Key: "embedding_norm", Default: false, With: with, Text: "a norm after the embedding, as in BLOOM"},
	}
}

// gated reports whether MLPs and experts have a gate.
func (m Model) gated() bool { return m.Gated != nil && *m.Gated }

// learned reports whether the model has a table of positions.
func (m Model) learned() bool { return m.PositionEmbedding == PositionsLearned }

// rotary reports whether queries and keys are rotated.
func (m Model) rotary() bool { return m.PositionEmbedding == PositionsRotary }

// keepsOnlyResult reports whether the gradient of the activation function follows from its result,
// which the next product keeps anyway. A gate multiplies with the result, so that both are kept.
func (m Model) keepsOnlyResult() bool { return m.Activation == ActivationReLU && !m.gated() }

// checkForm refuses parts that exclude each other.
func (m Model) checkForm() error {
	switch err := m.checkEager(); {
	case err != nil:
		return err
	case m.latent() && !m.rotary():
		return fmt.Errorf("position_embedding = %q: latent attention has rotary positions of its own; set "+
			"position_embedding = %q, or remove kv_lora_rank", m.PositionEmbedding, PositionsRotary)
	case m.MTPLayers > 0 && m.learned():
		return fmt.Errorf("mtp_layers = %d: modules that predict have no table of positions; set "+
			"position_embedding = %q", m.MTPLayers, PositionsRotary)
	case m.MTPShared && m.MTPLayers < 2:
		return errors.New("mtp_shared = true: has no meaning with fewer than two modules that predict (mtp_layers)")
	case m.ParallelBlock && m.Dropout > 0:
		return errors.New("dropout: psim models none in blocks with attention and MLP in parallel; " +
			"set dropout = 0 or parallel_block = false")
	}
	return nil
}

// Unexecuted names the first key of a network of family gpt that is simulated but not executed, or
// returns nil.
func (m Model) Unexecuted() error {
	r, err := m.resolve()
	if err != nil || r.Family != FamilyGPT || r.isGPT2() {
		return nil // building reports the error
	}
	for _, part := range []struct {
		key       string
		has, runs any
	}{
		{"norm", r.Norm, NormLayer}, {"activation", r.Activation, ActivationGELU}, {"gated", r.gated(), false},
		{"position_embedding", r.PositionEmbedding, PositionsLearned}, {"kv_heads", r.KVHeads, r.Heads},
		{"head_bias", r.HeadBias, false}, {"embedding_norm", r.EmbeddingNorm, false},
	} {
		if part.has != part.runs {
			return fmt.Errorf("%s = %s: is simulated, but not executed; set %s = %s",
				part.key, setting.Quote(part.has), part.key, setting.Quote(part.runs))
		}
	}
	return errors.New("linear_bias = false: is simulated, but not executed; set linear_bias = true")
}

// isGPT2 reports whether blocks have the form of GPT-2, which programs compute.
func (m Model) isGPT2() bool {
	return m.Norm == NormLayer && m.Activation == ActivationGELU && !m.gated() && m.learned() &&
		m.AttentionBias && m.MLPBias && m.KVHeads == m.Heads && !m.HeadBias && !m.EmbeddingNorm
}

// kind returns the kind of a layer if blocks have the form of GPT-2. Others are not described well
// enough to be executed.
func (m Model) kind(ofGPT2 network.LayerKind) network.LayerKind {
	if m.isGPT2() {
		return ofGPT2
	}
	return network.KindUnknown
}

// normParams lists the tensors of a norm over n features.
func (m Model) normParams(name string, n int) []network.Tensor {
	if m.Norm == NormLayer {
		return layerNormParams(name, n)
	}
	return []network.Tensor{gain(name, n)}
}

// function names the activation function.
func (m Model) function(prefix string) string { return prefix + m.Activation }

// gate makes a product of two tensors, element by element. I reads both and the gradient, and writes
// two.
func (m Model) gate(name string, s, f int) network.Op {
	return m.between().gate.op(name, elements(s, f)).Divided()
}
