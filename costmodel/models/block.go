package models

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/internal/setting"
)

// The blocks of one network may differ: some have a mixture of experts and others one MLP, some
// attend to a window and others to all earlier tokens.

// block returns the model with only the parts of its i-th block. Blocks with equal models share their
// operations and buffers.
func (m Model) block(i int) Model {
	if i < m.DenseLayers || (i+1)%max(1, m.MoEEvery) != 0 {
		m.Experts, m.ExpertsPerToken, m.SharedExperts = 0, 0, 0
	}
	if m.FullAttentionEvery > 0 && (i+1)%m.FullAttentionEvery == 0 {
		m.Window, m.DeltaValueHeads = 0, 0
		m.QKNorm = m.QKNorm && !m.PlainQKNorm // plain norms follow rotary positions, which these blocks lack
	}
	return m.withIndexer(i).withWindow(i).withSizes(i)
}

// A work holds the operations, buffers and tensors of a layer. Names of tensors are without the layer's.
type work struct {
	ops     []network.Op
	buffers []network.Buffer
	params  []network.Tensor
}

// works holds the work of blocks. Equal blocks share one.
type works map[Model]work

func (w works) of(m Model) work {
	made, ok := w[m]
	if !ok {
		made = work{llamaBlockOps(m), llamaBlockBuffers(m), llamaBlockParams(m)}
		w[m] = made
	}
	return made
}

// prefixed returns tensors with a layer's name before their own. All names are parts of one string: there are three
// for each expert of each block.
func prefixed(prefix string, params []network.Tensor) []network.Tensor {
	var names strings.Builder
	for _, p := range params {
		names.WriteString(prefix)
		names.WriteString(p.Name)
	}
	all, named := names.String(), slices.Clone(params)
	for i, p := range params {
		n := len(prefix) + len(p.Name)
		named[i].Name, all = all[:n], all[n:]
	}
	return named
}

// valueDim returns the features of a head of values.
func (m Model) valueDim() int {
	if m.latent() || m.VHeadDim > 0 {
		return m.VHeadDim
	}
	return m.HeadDim
}

// expertHidden returns the features inside an expert.
func (m Model) expertHidden() int {
	if m.ExpertHidden > 0 {
		return m.ExpertHidden
	}
	return m.FFNHidden
}

// expertKey names the setting with the features inside an expert.
func (m Model) expertKey() string {
	if m.ExpertHidden > 0 {
		return "expert_hidden"
	}
	return "ffn_hidden"
}

// A pattern gives every block one part (Nemotron-H, NVIDIA 2025): a norm, then a mixer of tokens or an MLP, and their
// sum with the block's input. Its letters are those of Megatron-LM's hybrid layer pattern. With spaces between blocks
// it may give a block two parts, one after the other (Bamba).
const (
	onlyMamba     = 'M'
	onlyAttention = '*'
	onlyMLP       = '-'
	onlyExperts   = 'E'
	onlyDelta     = 'G' // a gated delta net
	both          = 'H' // a mixer and attention side by side (Falcon-H1)
)

// words returns what a pattern says of each block: a letter, or two in a pattern with spaces between blocks.
func (m Model) words() []string {
	if m.Layers == 1 || strings.Contains(m.Pattern, " ") {
		return strings.Fields(m.Pattern)
	}
	return strings.Split(m.Pattern, "")
}

// blocks returns the models of all blocks (see block).
func (m Model) blocks() []Model {
	list := make([]Model, m.Layers)
	words := m.words()
	for i := range list {
		if m.Pattern == "" {
			list[i] = m.block(i)
			continue
		}
		list[i] = m.ofWord(words[i])
	}
	return list
}

// ofWord returns the model of a block with the parts that a word names.
func (m Model) ofWord(word string) Model {
	m.Pattern = word
	if len(word) == 1 {
		return m.with(word[0])
	}
	if !m.has(onlyExperts) {
		m.Experts, m.ExpertsPerToken, m.SharedExperts = 0, 0, 0
	}
	return m
}

// ofParts joins what is listed of both parts of a block that a pattern gives two; otherwise it returns nil.
func ofParts[T any](m Model, list func(Model) []T) []T {
	if m.only != 0 || len(m.Pattern) != 2 {
		return nil
	}
	return append(list(m.ofWord(m.Pattern[:1])), list(m.ofWord(m.Pattern[1:]))...)
}

// with returns the model with one part.
func (m Model) with(part byte) Model {
	m.only = part
	if m.only != onlyExperts {
		m.Experts, m.ExpertsPerToken, m.SharedExperts = 0, 0, 0
	}
	if m.only != onlyMamba && m.only != both {
		m.MambaHeads = 0
	}
	if m.only != onlyDelta {
		m.DeltaValueHeads = 0
	}
	return m
}

// attends reports whether some block has attention.
func (m Model) attends() bool { return m.Pattern == "" || m.has(onlyAttention) || m.has(both) }

// mixes reports whether a block mixes tokens.
func (m Model) mixes() bool { return !m.transforms() || m.only == 0 }

// transforms reports whether a block has an MLP or experts.
func (m Model) transforms() bool { return m.only == 0 || m.only == onlyMLP || m.only == onlyExperts }

// has reports whether some block has a part. Without a pattern all have attention.
func (m Model) has(part rune) bool { return strings.ContainsRune(m.Pattern, part) }

// checkPattern requires a letter for every block, and the parts that letters name.
func (m Model) checkPattern() error {
	if m.Pattern == "" {
		return nil
	}
	words := m.words()
	for i, word := range words {
		for _, letter := range word {
			if !strings.ContainsRune("MGH*-E", letter) {
				return fmt.Errorf("pattern has %q at block %d: must be M (Mamba-2), G (gated delta net), * "+
					"(attention), H (Mamba-2 and attention), - (MLP) or E (experts)", letter, i)
			}
		}
		mixer, second := strings.TrimRight(word, "-E"), strings.TrimLeft(word, "MGH*")
		if len(mixer) > 1 || len(second) > 1 || mixer+second != word {
			return fmt.Errorf("pattern has %.40q for block %d: must be a letter, or one of MGH* and then - or E", word,
				i)
		}
	}
	switch {
	case len(words) != m.Layers:
		return fmt.Errorf("pattern has %d blocks: must have layers = %d", len(words), m.Layers)
	case (m.has(onlyMamba) || m.has(both)) != m.mambas():
		return errors.New("pattern: needs a block with the letter M or H with mamba_heads, and mamba_heads with it")
	case m.has(onlyExperts) != (m.Experts > 0):
		return errors.New("pattern: needs a block with the letter E with experts, and experts with it")
	case m.DenseLayers > 0 || m.MoEEvery > 1:
		return errors.New("pattern: says which blocks have experts; remove dense_layers and moe_every")
	case m.has(onlyDelta) != m.delta():
		return errors.New("pattern: needs a block with the letter G with delta_value_heads, and these with it")
	case m.FullAttentionEvery > 0:
		return errors.New("pattern: says which blocks have attention; remove full_attention_every")
	case m.ParallelBlock || m.PostNorms:
		return errors.New("pattern: blocks have one part and one norm; remove parallel_block and post_norms")
	}
	return nil
}

// checkExpertLatent refuses experts with few features where one group divides each of them.
func (m Model) checkExpertLatent(g group.Group) error {
	if m.ExpertLatent > 0 && g.TensorParts() > 1 && !g.Dispatches() {
		return fmt.Errorf("expert_latent = %d: psim does not model a tensor-parallel group that divides every such "+
			"expert; set parallel.expert above 1 or parallel.tensor = 1", m.ExpertLatent)
	}
	return nil
}

// expertWidth returns the features that experts take and make.
func (m Model) expertWidth() int {
	if m.ExpertLatent > 0 {
		return m.ExpertLatent
	}
	return m.Hidden
}

// patternSettings describes the keys of blocks of one part.
func patternSettings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "pattern", Example: `"M-M*"`, With: llamas(), Unset: "blocks have attention and an MLP or experts",
			Text: "the only part of every block: M (Mamba-2), G (gated delta net), * (attention), H (M and * side by " +
				"side, as in Falcon-H1), - (MLP) or E (experts), as in Nemotron-H; with spaces between blocks also " +
				"two, one of MGH* and then - or E, as in \"M- *-\"",
		},
		{
			Key: "expert_latent", Example: "1024", Range: setting.Between(0, maxSize), With: []string{FamilyMixtral},
			Unset: "hidden", Text: "features that experts take and make, with a projection before and one after them " +
				"(Nemotron 3 Super)",
		},
	}
}

// mixerParams lists the tensors of what mixes tokens, and of the norm after it.
func mixerParams(m Model) []network.Tensor {
	h := m.Hidden
	var params []network.Tensor
	switch {
	case m.only == both:
		return append(mixerParams(m.with(onlyMamba)), mixerParams(m.with(onlyAttention))...)
	case m.mambas():
		inner, _ := m.mambaSizes()
		return append(mambaParams(m), rowProjection(mamba+"out_proj", inner, h, false)...)
	case m.delta():
		_, values := m.deltaSizes()
		params = append(deltaParams(m), rowProjection(linear+"out_proj", values, h, false)...)
	case m.latent():
		params = latentParams(m)
	default:
		params = queryParams(m)
	}
	if !m.delta() {
		params = append(params, rowProjection("self_attn.o_proj", m.Heads*m.valueDim(), h, m.AttentionBias)...)
	}
	if m.Sinks && !m.delta() {
		params = append(params, network.Tensor{
			Name: "self_attn." + m.core() + ".sinks", Shape: network.Dims{m.Heads}, Sharded: true, Norm: true,
		})
	}
	if m.PostNorms {
		params = append(params, m.normParams("post_self_attn_layernorm", h)...)
	}
	return params
}

// mixerOut makes the projection of the results of what mixes tokens.
func (m Model) mixerOut() network.Op {
	name, width, bias := "self_attn.o_proj", m.Heads*m.valueDim(), m.AttentionBias
	switch {
	case m.only == both:
	case m.mambas():
		inner, _ := m.mambaSizes()
		name, width, bias = mamba+"out_proj", inner, false
	case m.delta():
		_, values := m.deltaSizes()
		name, width, bias = linear+"out_proj", values, false
	}
	return m.linear(name, matmul{m.SequenceLength, width, m.Hidden}, bias).Leaving()
}

// mixerOps makes what mixes tokens, before the projection of its results.
func (m Model) mixerOps() []network.Op {
	switch {
	case m.only == both: // they have one input, and their results are summed before they leave
		first, second := m.with(onlyMamba), m.with(onlyAttention).mixerOps()
		out := first.mixerOut()
		out.Leaves, second[0].Enters = false, false
		return slices.Concat(first.mixerOps(), []network.Op{out}, second)
	case m.mambas():
		return mambaOps(m)
	case m.delta():
		return deltaOps(m)
	}
	var ops []network.Op
	if m.latent() {
		ops = latentOps(m)
	} else {
		ops = queryOps(m)
	}
	ops = append(ops, attention("self_attn.", m)...)
	return append(ops, m.gateOps()...)
}

// mixerBuffers lists the buffers of what mixes tokens.
func mixerBuffers(m Model) []network.Buffer {
	switch {
	case m.only == both: // they have one input
		second := mixerBuffers(m.with(onlyAttention))
		input := func(b network.Buffer) bool { return b.Name == "self_attn.qkv.input" }
		return append(mambaBuffers(m), slices.DeleteFunc(second, input)...)
	case m.mambas():
		return mambaBuffers(m)
	case m.delta():
		return deltaBuffers(m)
	}
	return llamaAttentionBuffers(m)
}
