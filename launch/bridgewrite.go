package launch

import (
	"strconv"
	"strings"
)

// BridgeVersion is the version of Megatron-Bridge whose files BridgeConfig writes.
const BridgeVersion = "0.3.1"

// bridgePlaces are the sections of Megatron-Bridge in which arguments have their keys, where that is not the model's,
// and the keys where they have other names. Those with "" follow from other keys.
var bridgePlaces = map[string]string{
	"micro_batch_size": "train.micro_batch_size", "global_batch_size": "train.global_batch_size",
	"optimizer": "optimizer.optimizer", "clip_grad": "optimizer.clip_grad", "sgd_momentum": "optimizer.sgd_momentum",
	"use_precision_aware_optimizer": "optimizer.use_precision_aware_optimizer",
	"exp_avg_dtype":                 "optimizer.exp_avg_dtype", "exp_avg_sq_dtype": "optimizer.exp_avg_sq_dtype",
	"use_distributed_optimizer": "ddp.use_distributed_optimizer", "overlap_grad_reduce": "ddp.overlap_grad_reduce",
	"overlap_param_gather": "ddp.overlap_param_gather", "ddp_bucket_size": "ddp.bucket_size",
	"use_megatron_fsdp":               "ddp.use_megatron_fsdp",
	"data_parallel_sharding_strategy": "ddp.data_parallel_sharding_strategy",
	"ckpt_format":                     "checkpoint.ckpt_format", "use_tp_pp_dp_mapping": "dist.use_tp_pp_dp_mapping",
	"bf16": "mixed_precision.bf16", "fp16": "mixed_precision.fp16", "fp8": "mixed_precision.fp8",
	"fp4": "mixed_precision.fp4", "fp8_recipe": "mixed_precision.fp8_recipe",
	"fp8_param_gather":            "mixed_precision.fp8_param_gather",
	"fp8_dot_product_attention":   "mixed_precision.fp8_dot_product_attention",
	"first_last_layers_bf16":      "mixed_precision.first_last_layers_bf16",
	"num_layers_at_start_in_bf16": "mixed_precision.num_layers_at_start_in_bf16",
	"num_layers_at_end_in_bf16":   "mixed_precision.num_layers_at_end_in_bf16",

	"num_experts":                          "model.num_moe_experts",
	"num_virtual_stages_per_pipeline_rank": "model.virtual_pipeline_model_parallel_size",
	"decoder_first_pipeline_num_layers":    "model.num_layers_in_first_pipeline_stage",
	"decoder_last_pipeline_num_layers":     "model.num_layers_in_last_pipeline_stage",
	"window_attn_skip_freq":                "model.window_attn_skip_freq",

	"make_vocab_size_divisible_by": "", "group_query_attention": "", "grad_reduce_in_bf16": "",
	"accumulate_allreduce_grads_in_fp32": "", "max_position_embeddings": "", "untie_embeddings_and_output_weights": "",
	"swiglu": "", "squared_relu": "", "attention_backend": "",
}

// bridgeTargets are the classes of the sections.
var bridgeTargets = map[string]string{
	"": "training.config.ConfigContainer", "model": "models.gpt_provider.GPTModelProvider",
	"train": "training.config.TrainingConfig", "optimizer": "training.config.OptimizerConfig",
	"ddp": "training.config.DistributedDataParallelConfig", "checkpoint": "training.config.CheckpointConfig",
	"dist": "training.config.DistributedInitConfig", "mixed_precision": "training.mixed_precision.MixedPrecisionConfig",
}

// BridgeConfig returns the configuration of Megatron-Bridge that trains by a command, by section and key, as its
// run_config.yaml has it.
func (c *Command) BridgeConfig() map[string]any {
	const module = "megatron.bridge."
	config := map[string]any{"_target_": module + bridgeTargets[""]}
	put := func(key string, value any) {
		section, name, _ := strings.Cut(key, bridgeSeparator)
		table, ok := config[section].(map[string]any)
		if !ok {
			table = map[string]any{"_target_": module + bridgeTargets[section]}
			config[section] = table
		}
		table[name] = value
	}
	sums := true // in fp32
	function, gated := "torch.nn.functional.gelu", false
	for _, a := range c.All() {
		key, placed := bridgePlaces[a.Name]
		if !placed {
			key = "model." + a.Name
		}
		if key != "" {
			put(key, bridgeValue(a))
		}
		switch a.Name {
		case "cpu_offloading_num_layers":
			put("model.cpu_offloading", true)
		case "untie_embeddings_and_output_weights":
			put("model.share_embeddings_and_output_weights", a.Value != "True")
		case "grad_reduce_in_bf16":
			sums = false
		case "fp16":
			sums = c.has("accumulate_allreduce_grads_in_fp32")
		case "swiglu":
			function, gated = "torch.nn.functional.silu", true
		case "squared_relu":
			function = "megatron.bridge.utils.squared_relu"
		case "attention_backend":
			put("model.attention_backend", map[string]any{
				"_target_": "megatron.core.transformer.enums.AttnBackend", "_call_": true, "_args_": []int{3},
			})
		}
	}
	put("model.activation_func", map[string]any{"_target_": function, "_call_": false})
	put("model.gated_linear_unit", gated)
	put("model.should_pad_vocab", false)
	put("ddp.grad_reduce_in_fp32", sums)
	if table, ok := config["mixed_precision"].(map[string]any); ok {
		table["grad_reduce_in_fp32"] = sums
	}
	return config
}

// bridgeValue returns the value of an argument as a file has it: a number, a switch, a list or a word.
func bridgeValue(a Argument) any {
	switch a.Name {
	case "moe_layer_freq":
		if strings.Contains(a.Value, "*") {
			layers := 0
			for _, r := range repeated.FindAllStringSubmatch(a.Value, -1) {
				layers += firstNumber(r[2])
			}
			var list []int
			for _, has := range mixtures(a.Value, layers) {
				list = append(list, map[bool]int{true: 1}[has])
			}
			return list
		}
	case "recompute_modules":
		return strings.Fields(a.Value)
	case "window_size":
		var list []int
		for text := range strings.SplitSeq(a.Value, ",") {
			n, _ := strconv.Atoi(text)
			list = append(list, n)
		}
		return list
	}
	if n, err := strconv.Atoi(a.Value); err == nil {
		return n
	}
	if x, err := strconv.ParseFloat(a.Value, 64); err == nil {
		return x
	}
	switch a.Value {
	case "True":
		return true
	case "False":
		return false
	}
	return a.Value
}
