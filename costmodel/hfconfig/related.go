package hfconfig

import (
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/models"
	"psim/internal/nearest"
)

// A relative is a model_type that is not read, the nearest that is, and how the first differs.
type relative struct{ name, nearest, differs string }

// relatives lists types of transformers whose blocks are nearly those of a type that is read.
func relatives() []relative {
	return []relative{
		{"olmo", "llama", "norms without weights, and clips queries, keys and values"},
		{"internlm2", "llama", "one product for queries, keys and values"},
		{"minicpm", "llama", "factors on embeddings, residuals and logits"},
		{"mllama", "llama", "attention to images in some blocks"},
		{"llava_next", "llama", "a network for images; text_config describes the other"},
		{"phimoe", "mixtral", "layer norms and biases"},
		{"dbrx", "mixtral", "layer norms, and its sizes under other keys (d_model, n_heads, ffn_config)"},
		{"mpt", "gpt2", "biases by distance (ALiBi) instead of a table of positions, and no biases of products"},
		{"gpt_neo", "gpt2", "attention to a window in every other block"},
		{"gptj", "gpt2", "attention and MLP in parallel, rotary positions, and a head of its own"},
		{"falcon", "gpt2", "attention and MLP in parallel, rotary positions, and few heads of keys and values"},
		{"gpt_bigcode", "gpt2", "one head of keys and values"},
	}
}

// encoders lists types that do not predict a next token.
func encoders() []string {
	return strings.Fields("vit clip siglip wav2vec2")
}

// Family reports whether a name begins as the model_type of a config.json that psim reads, or nearly
// reads: with the same letters up to a digit or a dash, as qwen3-8b does.
func Family(name string) bool {
	letters := func(s string) string {
		s = strings.ToLower(s)
		end := strings.IndexFunc(s, func(r rune) bool { return r < 'a' || r > 'z' })
		if end < 0 {
			return s
		}
		return s[:end]
	}
	same := func(modelType string) bool { return letters(modelType) == letters(name) }
	return slices.ContainsFunc(models.ConfigTypes(), same) ||
		slices.ContainsFunc(relatives(), func(r relative) bool { return same(r.name) })
}

// unsupported returns the error for a model_type that is not read. It names the nearest type that
// is, and what would have to be the same.
func (f configFile) unsupported() error {
	refused := fmt.Sprintf("model_type %q is not supported", f.modelType)
	list := relatives()
	i := slices.IndexFunc(list, func(r relative) bool { return r.name == f.modelType })
	switch parts := unmodelled(f.modelType); {
	case parts != "":
		return fmt.Errorf("%s: psim does not model %s; psim list models has networks that it does", refused, parts)
	case i >= 0:
		return fmt.Errorf("%s; the nearest is %q, but %s has %s: write model_type %[2]q to predict it without that",
			refused, list[i].nearest, f.modelType, list[i].differs)
	}
	refused += "; must be one of " + strings.Join(models.ConfigTypes(), ", ")
	if slices.Contains(encoders(), f.modelType) {
		return fmt.Errorf("%s: of encoders psim models those of text alone", refused)
	}
	if best, ok := nearest.Word(f.modelType, models.ConfigTypes()); ok {
		return fmt.Errorf("%s; did you mean %s?", refused, best)
	}
	near := "llama"
	if f.keys.given("num_local_experts") || f.keys.given("num_experts") {
		near = "mixtral"
	}
	return fmt.Errorf("%s; if its blocks are those of %[2]q (RMS norms before attention and MLP, rotary positions, "+
		"an MLP with a gate), write model_type %[2]q", refused, near)
}
