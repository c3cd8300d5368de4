package launch

import (
	"strings"
)

// model maps the sizes of the network.
func (m *mapper) model() {
	family := "gpt"
	llama := m.get("normalization") == "RMSNorm" || m.on("swiglu") ||
		m.on("multi_latent_attention") || m.on("qk_layernorm") ||
		m.get("window_size") != "" ||
		m.get("softmax_type") == "learnable" ||
		m.integer("mtp_num_layers") > 0 ||
		m.integer("hidden_size") != m.integer("kv_channels")*m.integer("num_attention_heads")
	switch {
	case m.integer("num_experts") > 0:
		family = "mixtral"
	case llama:
		family = "llama"
	}
	m.set("model.family", family)
	m.copy("model.layers")
	m.copy("model.hidden")
	m.copy("model.heads")
	m.copy("model.sequence_length")
	m.copy("model.ffn_hidden")
	if m.integer("padded_vocab_size") > 0 {
		m.set(
			"model.vocab",
			m.integer("padded_vocab_size"),
			"padded_vocab_size",
			"vocab_size",
			"make_vocab_size_divisible_by",
		)
	} else {
		m.set("model.vocab", 50304, "vocab_size", "make_vocab_size_divisible_by")
		m.ask(
			"model.vocab",
			"the tokenizer decides how many words there are: GPT-2's 50,257, padded to 50,304, are assumed; "+
				"--set model.vocab=N says it",
		)
	}
	m.blocks()
	m.position()
	m.set("model.tied", !m.on("untie_embeddings_and_output_weights"), "untie_embeddings_and_output_weights")
	m.copy("model.mtp_layers")
}

// blocks maps what a block is made of.
func (m *mapper) blocks() {
	norm := norms[m.get("normalization")]
	if norm == "" {
		m.refuse("normalization", "psim knows LayerNorm and RMSNorm")
	}
	m.set("model.norm", norm, "normalization")
	activation, gated := "gelu", m.on("gated_linear_unit") || m.on("quick_geglu")
	switch {
	case m.on("swiglu"):
		activation, gated = "silu", true
	case m.on("squared_relu"):
		activation = "relu2"
	}
	m.set("model.activation", activation, "swiglu", "squared_relu")
	m.set("model.gated", gated, "swiglu", "quick_geglu", "gated_linear_unit")
	m.set("model.linear_bias", !m.has("add_bias_linear") || m.on("add_bias_linear"), "add_bias_linear")
	if m.on("add_qkv_bias") && !m.on("add_bias_linear") {
		m.turn("model.qkv_bias")
	}
	m.set("model.dropout", max(m.number("hidden_dropout"), m.number("attention_dropout")),
		"hidden_dropout", "attention_dropout")
	if m.number("hidden_dropout") != m.number("attention_dropout") {
		m.leave("attention_dropout", "psim has one rate of dropout: the higher one is taken")
	}
}

// position maps how tokens know where they are.
func (m *mapper) position() {
	position := m.get("position_embedding_type")
	switch {
	case m.on("use_rotary_position_embeddings") || position == "rope" || position == "yarn" || position == "mrope":
		m.set("model.position_embedding", "rotary", "position_embedding_type", "use_rotary_position_embeddings")
	case position == "none":
		m.set("model.position_embedding", "none", "position_embedding_type")
	case position == "alibi" || strings.HasSuffix(position, ".alibi"):
		m.set("model.position_embedding", "alibi", "position_embedding_type")
	case m.on("multi_latent_attention"):
		m.set("model.position_embedding", "rotary", "position_embedding_type")
		m.leave(
			"position_embedding_type",
			"latent attention has rotary positions: a table of positions besides is left out",
		)
	case position == "" || strings.HasPrefix(position, "learned"):
		m.set("model.position_embedding", "learned", "position_embedding_type")
		m.copy("model.positions")
	default:
		m.refuse("position_embedding_type", "psim knows learned_absolute, rope, yarn, alibi and none")
	}
}

// attention maps heads and their kernels.
func (m *mapper) attention() {
	if m.on("group_query_attention") {
		m.copy("model.kv_heads")
	}
	if m.on("multi_latent_attention") {
		for _, key := range latentSizes {
			m.copy(key)
		}
	} else {
		if m.integer("kv_channels")*m.integer("num_attention_heads") != m.integer("hidden_size") {
			m.copy("model.head_dim")
		}
		if m.on("qk_layernorm") {
			m.turn("model.qk_norm")
		}
	}
	backend := strings.TrimPrefix(m.get("attention_backend"), "AttnBackend.")
	local := m.get("transformer_impl") != "transformer_engine" // attention then is fused only by FlashAttention
	unfused := !m.on("use_flash_attn") && (local || backend == "unfused" || backend == "local")
	attention := "flash"
	if unfused && m.integer("context_parallel_size") < 2 {
		attention = "unfused"
	}
	m.set("model.attention", attention, "attention_backend", "use_flash_attn")
	if w := firstNumber(m.get("window_size")); w > 0 {
		m.set("model.window", w+1, "window_size")
		m.copy("model.full_attention_every")
	}
	if m.get("softmax_type") == "learnable" {
		m.set("model.sinks", true, "softmax_type")
	}
	for _, name := range []string{
		"experimental_attention_variant", "hybrid_layer_pattern", "hybrid_override_pattern", "spec",
	} {
		if m.get(name) != "" {
			m.refuse(
				name,
				"psim does not read these layers from arguments; name the model's config.json (docs/models.md)",
			)
		}
	}
}
