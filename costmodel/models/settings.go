package models

import (
	"slices"

	"psim/internal/setting"
)

// Settings describes [model].
func (Model) Settings() []setting.Setting {
	return slices.Concat(sourceSettings(), sizeSettings(), mixtureSettings(), formSettings(), blockFormSettings(),
		lossSettings(), blockExpertSettings(), latentSettings(), sparseSettings(), deltaSettings(), patternSettings(),
		mambaSettings(), attentionSettings(), windowSettings(), sizeListSettings(), encoderSettings())
}

// transformers lists the families of transformers.
func transformers() []string { return []string{FamilyGPT, FamilyLlama, FamilyMixtral} }

// llamas lists the families with blocks of Llama, with or without experts.
func llamas() []string { return []string{FamilyLlama, FamilyMixtral} }

// sourceSettings describes the keys that name a network or its family.
func sourceSettings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "preset", Example: `"gpt2"`, Shown: true, Unset: "file or family",
			Text: "psim list models; other keys here replace its own",
		},
		{
			Key: "file", Example: `"config.json"`, Unset: "preset or family",
			Text: "or a Hugging Face config.json (docs/models.md has the types)",
		},
		{
			Key: "family", Example: `"gpt"`, OneOf: append(transformers(), familyMLP), Unset: "preset or file",
			Text: "or gpt, llama, mixtral, mlp with the keys below",
		},
	}
}

// sizeSettings describes the keys of a network's sizes.
func sizeSettings() []setting.Setting {
	size := setting.Between(1, maxSize)
	return []setting.Setting{
		{
			Key: "layers", Example: "12", Range: setting.Between(1, MaxLayers), With: append(transformers(), familyMLP),
			Unset: "the preset's",
			Text:  "blocks, or linear layers",
		},
		{
			Key: "hidden", Example: "768", Range: size, With: append(transformers(), familyMLP), Unset: "the preset's",
			Text: "features of a token",
		},
		{Key: "heads", Example: "12", Range: size, With: transformers(), Text: "query heads", Unset: "the preset's"},
		{
			Key: "kv_heads", Example: "12", Range: size, With: transformers(), Text: "key and value heads",
			Unset: "heads",
		},
		{
			Key: "head_dim", Example: "64", Range: size, With: transformers(), Text: "features of a head",
			Unset: "hidden / heads",
		},
		{
			Key: "ffn_hidden", Example: "3072", Range: size, With: transformers(),
			Unset: "the preset's; for gpt 4 × hidden",
			Text:  "features inside the MLP, or inside an expert",
		},
		{
			Key: "vocab", Example: "50257", Range: size, With: transformers(), Unset: "the preset's",
			Text: "rows of the embedding",
		},
		{
			Key: "sequence_length", Example: "1024", Range: size, With: append(transformers(), "file"),
			Unset: "the preset's",
			Text:  "tokens per sample",
		},
		{
			Key: "positions", Example: "1024", Range: size, With: transformers(),
			Unset: "sequence_length",
			Text:  "rows of the position table",
		},
	}
}

// mixtureSettings describes the keys of a mixture of experts.
func mixtureSettings() []setting.Setting {
	mixtral := []string{FamilyMixtral}
	size := setting.Between(1, maxSize)
	return []setting.Setting{
		{
			Key: "experts", Example: "8", Range: setting.Between(1, maxExperts), With: mixtral, Unset: "the preset's",
			Text: "MLPs of a block; parallel.expert divides them among devices",
		},
		{
			Key: "experts_per_token", Example: "2", Range: size, With: mixtral, Unset: "the preset's",
			Text: "experts that a token goes through",
		},
		{
			Key: "expert_groups", Example: "8", Range: setting.Between(1, maxExperts), With: mixtral, Unset: "1",
			Text: "groups of experts, each on devices of its own; a token is limited to some of them (DeepSeek-V3). " +
				"It has an effect with dispatcher = \"deepep\"",
		},
		{
			Key: "groups_per_token", Example: "4", Range: setting.Between(1, maxExperts), With: mixtral, Unset: "all",
			Text: "groups that the experts of a token are in",
		},
		{
			Key: "imbalance", Neutral: 1.0, Needs: []setting.Need{{
				Keys: []string{"parallel.expert"}, Above: 1, Reason: "since tokens stay where their experts are",
			}},
			Example: "1.2", Range: setting.Between(1, maxExperts), With: append(mixtral, "file"),
			Unset: "1: all are equally busy, as benchmarks force them to be",
			Text:  "rows of the busiest device of an expert group over the mean: the others wait for it",
		},
		{
			Key: "capacity", Example: "1.25", Range: setting.Range{Max: maxExperts, AboveMin: true},
			With: append(mixtral, "file"), Unset: "none: no token is dropped",
			Text: "rows of every expert over the mean: further rows are dropped, and missing ones are filled up",
		},
	}
}

// formSettings describes the keys of the form of a network, and of its kernels.
func formSettings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "tied", Example: "true", With: transformers(), Unset: "true for gpt, else false",
			Text: "the head shares the embedding's table",
		},
		{Key: "qkv_bias", Default: false, With: transformers(), Text: "biases of queries, keys and values"},
		{
			Key: "dropout", Default: 0.0, Range: setting.Range{Max: 1, BelowMax: true}, With: transformers(),
			Text: "rate after the embedding, on the attention and after both projections",
		},
		{
			Key: "attention", Try: []string{AttentionFlash},
			Example: `"flash"`, OneOf: []string{AttentionFlash, AttentionUnfused},
			With: append(transformers(), "file"),
			Unset: "flash in 16 bits on GPUs and TPUs; unfused in fp32, on CPUs and with kernels that have no " +
				"fused attention",
			Text: "flash: one kernel that keeps no square and leaves out what the mask covers. unfused: scores of " +
				"all pairs of tokens are written and read",
		},
		{
			Key: "kernels", Try: []string{KernelsFused},
			Example: `"fused"`, OneOf: kernelNames(), With: append(transformers(), "file"),
			Unset: "the preset's (megatron for megatron-*), or fused",
			Text:  "kernels between products (psim list kernels -v). " + kernelHelp() + ". Only times differ",
		},
		{
			Key: "code", Example: `"plain"`, OneOf: codeNames(), With: append(transformers(), "file"), Unset: "plain",
			Text: "the program whose code launches kernels. " + codeHelp(),
		},
	}
}

// blockExpertSettings describes the optional keys of the experts of a block.
func blockExpertSettings() []setting.Setting {
	mixtral := []string{FamilyMixtral}
	size := setting.Between(0, maxSize)
	layers := setting.Between(0, MaxLayers)
	return []setting.Setting{
		{
			Key: "expert_hidden", Example: "2048", Range: size, With: mixtral, Unset: "ffn_hidden",
			Text: "features inside an expert",
		},
		{
			Key: "shared_experts", Example: "1", Range: setting.Between(0, maxExperts), With: mixtral, Unset: "none",
			Text: "experts that every token goes through, in addition to those it is sent to",
		},
		{
			Key: "dense_layers", Example: "3", Range: layers, With: mixtral, Unset: "none",
			Text: "number of first blocks that have an MLP of ffn_hidden instead of experts",
		},
		{
			Key: "moe_every", Example: "2", Range: layers, With: mixtral, Unset: "1",
			Text: "n: every n-th block has experts, the others an MLP of ffn_hidden",
		},
		{
			Key: "dense_beside_experts", Default: false, With: mixtral,
			Text: "blocks with experts have an MLP of ffn_hidden as well, with norms before and after both (Gemma 4)",
		},
		{
			Key: "router_bias", Default: false, With: mixtral,
			Text: "a bias of every expert that only affects the choice of experts and has no gradient, as in " +
				"DeepSeek-V3",
		},
	}
}

// latentSettings describes the keys of latent attention.
func latentSettings() []setting.Setting {
	llama := llamas()
	size := setting.Between(0, maxSize)
	return []setting.Setting{
		{
			Key: "kv_lora_rank", Example: "512", Range: size, With: llama,
			Unset: "keys and values are made from hidden",
			Text:  "multi-head latent attention: features that keys and values are made from",
		},
		{
			Key: "q_lora_rank", Example: "1536", Range: size, With: llama, Unset: "hidden",
			Text: "features that its queries are made from",
		},
		{
			Key: "qk_nope_head_dim", Example: "128", Range: size, With: llama, Unset: "needed with kv_lora_rank",
			Text: "features without position of its queries and keys",
		},
		{
			Key: "qk_rope_head_dim", Example: "64", Range: size, With: llama, Unset: "needed with kv_lora_rank",
			Text: "features with rotary positions",
		},
		{
			Key: "v_head_dim", Example: "128", Range: size, With: llama,
			Unset: "head_dim; needed with kv_lora_rank", Text: "features of a head's values",
		},
	}
}

// attentionSettings describes the optional keys of the attention and the norms of a block.
func attentionSettings() []setting.Setting {
	llama, file := llamas(), append(llamas(), "file")
	size := setting.Between(0, maxSize)
	layers := setting.Between(0, MaxLayers)
	return []setting.Setting{
		{
			Key: "window", Example: "4096", Range: size, With: file, Unset: "all earlier ones, or as in the file",
			Text: "tokens that attention sees; only fused attention is faster with fewer",
		},
		{
			Key: "full_attention_every", Example: "6", Range: layers, With: llama, Unset: "no block",
			Text: "n: every n-th block has attention without a window, or attention in place of a gated delta net",
		},
		{
			Key: "chunked", Default: false, With: llama,
			Text: "the sequence is cut into chunks of window tokens, and a token sees only its chunk, as in Llama 4",
		},
		{Key: "qk_norm", Default: false, With: llama, Text: "norms of every head's queries and keys"},
		{
			Key: "plain_qk_norm", Default: false, With: llama,
			Text: "the norms of qk_norm have no gains, and blocks without a window lack these norms, as in Llama 4",
		},
		{
			Key: "whole_qk_norm", Default: false, With: llama,
			Text: "the norms of qk_norm are of all heads together, with a gain a feature, as in OLMo 2",
		},
		{
			Key: "post_norms", Default: false, With: llama,
			Text: "norms of the results of attention and MLP, too, as in Gemma 2",
		},
		{
			Key: "attention_bias", Default: false, With: transformers(),
			Text: "biases of queries, keys, values and of the projection after attention",
		},
		{Key: "mlp_bias", Default: false, With: transformers(), Text: "biases of MLP, router and experts"},
		{
			Key: "sinks", Default: false, With: llama,
			Text: "a logit of every head that takes attention from all tokens, as in GPT-OSS",
		},
		{
			Key: "mtp_layers", Example: "1", Range: layers, With: file, Unset: "none",
			Text: "modules that each predict one more token, as in DeepSeek-V3",
		},
		{
			Key: "mtp_shared", Default: false, With: llama,
			Text: "modules that predict have one set of parameters, as in Nemotron 3",
		},
	}
}
