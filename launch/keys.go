package launch

// The tables below say which argument of Megatron's a key stands for. Imports read them in one direction, and
// scripts are written by them in the other.

// numbers are the arguments that keys have the number of.
var numbers = map[string]string{
	"model.layers": "num_layers", "model.hidden": "hidden_size", "model.heads": "num_attention_heads",
	"model.kv_heads": "num_query_groups", "model.head_dim": "kv_channels", "model.ffn_hidden": "ffn_hidden_size",
	"model.sequence_length": "seq_length", "model.positions": "max_position_embeddings",
	"model.full_attention_every": "window_attn_skip_freq", "model.mtp_layers": "mtp_num_layers",
	"model.q_lora_rank": "q_lora_rank", "model.kv_lora_rank": "kv_lora_rank",
	"model.qk_nope_head_dim": "qk_head_dim", "model.qk_rope_head_dim": "qk_pos_emb_head_dim",
	"model.v_head_dim": "v_head_dim",
	"model.experts":    "num_experts", "model.experts_per_token": "moe_router_topk",
	"model.expert_hidden": "moe_ffn_hidden_size", "model.expert_groups": "moe_router_num_groups",
	"model.groups_per_token": "moe_router_group_topk",
	"parallel.tensor":        "tensor_model_parallel_size", "parallel.context": "context_parallel_size",
	"parallel.expert": "expert_model_parallel_size", "parallel.expert_tensor": "expert_tensor_parallel_size",
	"schedule.stages": "pipeline_model_parallel_size", "schedule.group": "microbatch_group_size_per_vp_stage",
	"schedule.first_blocks": "decoder_first_pipeline_num_layers",
	"schedule.last_blocks":  "decoder_last_pipeline_num_layers",
	"batch.micro":           "micro_batch_size", "batch.global": "global_batch_size",
}

// latentSizes are the keys of latent attention, all of them numbers.
var latentSizes = []string{
	"model.q_lora_rank", "model.kv_lora_rank", "model.qk_nope_head_dim", "model.qk_rope_head_dim", "model.v_head_dim",
}

// switches are the arguments that are on where a key is true.
var switches = map[string]string{
	"model.linear_bias": "add_bias_linear", "model.qkv_bias": "add_qkv_bias", "model.qk_norm": "qk_layernorm",
	"model.router_bias": "moe_router_enable_expert_bias",
	"parallel.sequence": "sequence_parallel", "parallel.overlap": "overlap_grad_reduce",
	"parallel.overlap_gather": "overlap_param_gather", "parallel.expert_overlap": "overlap_moe_expert_parallel_comm",
	"parallel.delay_weights": "delay_wgrad_compute",
}

// What psim calls Megatron's values. Those that are missing it does not know.
var (
	contextMethods = map[string]string{"": "ring", "p2p": "ring", "all_gather": "all-gather", "a2a": "ulysses"}
	optimizers     = map[string]string{
		"": "adamw", "adam": "adamw", "adamw": "adamw", "sgd": "sgd-momentum", "muon": "muon", "dist_muon": "muon",
		"lion": "lion",
	}
	recipes = map[string]string{
		"": "delayed", "delayed": "delayed", "tensorwise": "current", "blockwise": "blockwise",
	}
	norms      = map[string]string{"": "layer", "LayerNorm": "layer", "RMSNorm": "rms"}
	strategies = map[string]int{"optim": 1, "optim_grads": 2, "optim_grads_params": 3}
	modules    = map[string]string{"layernorm": "norm"}
)

// saying returns Megatron's word for a value: the shortest of those that mean it; "" if no word does.
func saying[T comparable](words map[string]T, value T) (word string) {
	for w, means := range words {
		shorter := len(w) < len(word) || len(w) == len(word) && w < word
		if means == value && w != "" && (word == "" || shorter) {
			word = w
		}
	}
	return word
}
