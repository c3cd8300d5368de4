package models

import "psim/internal/setting"

// blockSettings describes the keys of what a block of llama or mixtral may have beside what
// every one has.
func blockSettings() []setting.Setting {
	llama, mixtral := []string{familyLlama, familyMixtral}, []string{familyMixtral}
	file := append(llama, "file")
	size, layers := setting.Between(0, maxSize), setting.Between(0, maxLayers)
	return []setting.Setting{
		{Key: "expert_hidden", Example: "2048", Range: size, With: mixtral, Text: "features inside an expert", Unset: "ffn_hidden"},
		{Key: "shared_experts", Example: "1", Range: setting.Between(0, maxExperts), With: mixtral, Text: "experts that every token goes through, beside those it is sent to", Unset: "none"},
		{Key: "dense_layers", Example: "3", Range: layers, With: mixtral, Text: "so many first blocks have an MLP of ffn_hidden and no experts", Unset: "none"},
		{Key: "moe_every", Example: "2", Range: layers, With: mixtral, Text: "every so many-th block has experts, the others an MLP of ffn_hidden", Unset: "1"},
		{Key: "router_bias", Default: false, With: mixtral, Text: "a bias of every expert that only chooses, and no gradient makes, as DeepSeek-V3 has"},
		{Key: "kv_lora_rank", Example: "512", Range: size, With: llama, Text: "multi-head latent attention: features that keys and values are made from", Unset: "keys and values are made from hidden"},
		{Key: "q_lora_rank", Example: "1536", Range: size, With: llama, Text: "features that its queries are made from", Unset: "hidden"},
		{Key: "qk_nope_head_dim", Example: "128", Range: size, With: llama, Text: "features without position of its queries and keys", Unset: "needed with kv_lora_rank"},
		{Key: "qk_rope_head_dim", Example: "64", Range: size, With: llama, Text: "features with rotary positions", Unset: "needed with kv_lora_rank"},
		{Key: "v_head_dim", Example: "128", Range: size, With: llama, Text: "features of its values", Unset: "needed with kv_lora_rank"},
		{Key: "window", Example: "4096", Range: size, With: file, Text: "tokens that attention sees, which only fused attention makes use of", Unset: "all before, or as the file has it"},
		{Key: "full_attention_every", Example: "6", Range: layers, With: llama, Text: "every so many-th block has attention without a window", Unset: "none has"},
		{Key: "chunked", Default: false, With: llama, Text: "the window is that part of the sequence, of parts as long, that a token is in, as in Llama 4"},
		{Key: "qk_norm", Default: false, With: llama, Text: "norms of every head's queries and keys"},
		{Key: "plain_qk_norm", Default: false, With: llama, Text: "these norms have no gains, and blocks without a window have none, as in Llama 4"},
		{Key: "post_norms", Default: false, With: llama, Text: "norms of the results of attention and MLP, too, as Gemma 2 has"},
		{Key: "attention_bias", Default: false, With: llama, Text: "biases of queries, keys, values and of the projection after attention"},
		{Key: "mlp_bias", Default: false, With: llama, Text: "biases of MLP, router and experts"},
		{Key: "sinks", Default: false, With: llama, Text: "a logit of every head that takes attention from all tokens, as GPT-OSS has"},
		{Key: "parallel_block", Default: false, With: []string{familyLlama}, Text: "attention and MLP beside each other, with one norm"},
		{Key: "mtp_layers", Example: "1", Range: layers, With: file, Text: "modules that predict a further token each, as DeepSeek-V3 has", Unset: "none"},
	}
}
