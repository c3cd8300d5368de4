package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// plan maps the groups of devices.
func (m *mapper) plan(devices int) {
	tensor, stages := max(
		1,
		m.integer("tensor_model_parallel_size"),
	), max(
		1,
		m.integer("pipeline_model_parallel_size"),
	)
	context := max(1, m.integer("context_parallel_size"))
	data := devices / (tensor * stages * context)
	m.set("parallel.data", data, "world_size", "data_parallel_size")
	if tensor > 1 {
		m.copy("parallel.tensor")
		m.turn("parallel.sequence")
	}
	if context > 1 {
		m.copy("parallel.context")
		method := contextMethods[strings.Trim(m.get("cp_comm_type"), "[]'")]
		if method == "" {
			m.refuse("cp_comm_type", "psim knows p2p, all_gather and a2a")
		}
		m.set("parallel.context_method", method, "cp_comm_type")
	}
	m.experts(tensor)
	m.sharding(data)
	if data > 1 {
		m.turn("parallel.overlap")
	}
	if n := m.integer("ddp_bucket_size"); n > 0 && data > 1 {
		m.set("parallel.bucket", fmt.Sprintf("%d gradients", n), "ddp_bucket_size")
	}
	if m.on("use_tp_pp_dp_mapping") {
		m.set("parallel.order", "tp-pp-dp", "use_tp_pp_dp_mapping")
	}
	m.batch(data)
}

// experts maps the groups that share experts.
func (m *mapper) experts(tensor int) {
	if m.integer("expert_model_parallel_size") > 1 {
		m.copy("parallel.expert")
	}
	if n := m.expertTensor(); m.integer("num_experts") > 0 &&
		(n != tensor || n > 1 && m.integer("expert_model_parallel_size") > 1) {
		m.set("parallel.expert_tensor", n, "expert_tensor_parallel_size")
	}
	if m.integer("num_experts") > 0 && m.on("overlap_moe_expert_parallel_comm") {
		m.turn("parallel.expert_overlap")
		m.turn("parallel.delay_weights")
	}
}

// batch maps the samples of a step.
func (m *mapper) batch(data int) {
	m.copy("batch.micro")
	if n := m.integer("global_batch_size"); n > 0 {
		m.copy("batch.global")
		if per := m.integer("micro_batch_size") * data; n%per != 0 {
			m.refuse(
				"global_batch_size",
				fmt.Sprintf("must be a multiple of micro_batch_size %d × %d replicas; --devices N says how many "+
					"devices there are", m.integer("micro_batch_size"), data),
			)
		}
	} else {
		m.set("batch.global", m.integer("micro_batch_size")*data, "global_batch_size")
	}
}

// sharding maps what replicas divide.
func (m *mapper) sharding(data int) {
	zero, fork := 0, m.integer("zero_stage") // of Megatron-DeepSpeed
	switch strategy := m.get("data_parallel_sharding_strategy"); {
	case m.on("use_torch_fsdp2"):
		zero = 3
	case m.on("use_megatron_fsdp"):
		zero = strategies[strategy]
	case m.on("use_distributed_optimizer"):
		zero = 1
	case fork > 0:
		zero = fork
	case m.on("deepspeed") && m.on("bf16") && m.given != nil: // BF16_Optimizer divides its state, whatever the stage
		zero = 1
	}
	m.set(
		"parallel.zero",
		zero,
		"use_distributed_optimizer",
		"use_torch_fsdp2",
		"use_megatron_fsdp",
		"data_parallel_sharding_strategy",
	)
	if zero == 1 && data > 1 {
		m.turn("parallel.overlap_gather")
	}
	n := m.integer("num_distributed_optimizer_instances")
	if zero == 3 && n > 1 && data%n == 0 && data > n {
		m.set("parallel.zero_group", data/n, "num_distributed_optimizer_instances")
	}
	if zero == 1 && n > 1 && data%n == 0 {
		m.leave(
			"num_distributed_optimizer_instances",
			fmt.Sprintf(
				"parallel.zero_group = %d needs parallel.reduce_scatter = false, which Megatron has not",
				data/n,
			),
		)
	}
}

// schedule maps the pipeline.
func (m *mapper) schedule() {
	stages := max(1, m.integer("pipeline_model_parallel_size"))
	if stages == 1 {
		m.set("schedule.name", "ddp", "pipeline_model_parallel_size")
		return
	}
	m.set("schedule.name", "1f1b", "pipeline_model_parallel_size")
	m.copy("schedule.stages")
	if n := m.integer("microbatch_group_size_per_vp_stage"); n > 0 && n != stages {
		m.copy("schedule.group")
	}
	if m.layout(stages) {
		return
	}
	m.set("schedule.partition", "blocks")
	if chunks := m.chunks(stages); chunks > 1 {
		m.set(
			"schedule.name",
			"interleaved-1f1b",
			"num_layers_per_virtual_pipeline_stage",
			"num_virtual_stages_per_pipeline_rank",
		)
		m.set(
			"schedule.virtual_stages",
			chunks,
			"num_layers_per_virtual_pipeline_stage",
			"num_virtual_stages_per_pipeline_rank",
		)
	}
	m.copy("schedule.first_blocks")
	m.copy("schedule.last_blocks")
}

// chunks returns the number of stages on a rank.
func (m *mapper) chunks(stages int) int {
	chunks := max(
		m.integer("virtual_pipeline_model_parallel_size"),
		m.integer("num_virtual_stages_per_pipeline_rank"),
		1,
	)
	if n := m.integer("num_layers_per_virtual_pipeline_stage"); n > 0 {
		if m.integer("num_layers")%(stages*n) != 0 {
			m.refuse("num_layers_per_virtual_pipeline_stage", fmt.Sprintf("%d stages of this size do not "+
				"divide %d layers", stages, m.integer("num_layers")))
		}
		chunks = max(chunks, m.integer("num_layers")/stages/n)
	}
	return chunks
}

// training maps precision, optimizer and recomputation.
func (m *mapper) training() {
	m.precision()
	m.stored()
	m.set("train.stack", m.stack(), "transformer_impl")
	momentum := m.number("sgd_momentum")
	optimizer, ok := optimizers[m.get("optimizer")]
	if !ok {
		m.refuse("optimizer", "psim knows adam, sgd, lion and muon")
	}
	if optimizer == "sgd-momentum" && m.has("sgd_momentum") && momentum == 0 {
		optimizer = "sgd"
	}
	m.set("train.optimizer", optimizer, "optimizer", "sgd_momentum")
	m.set("train.clip", m.number("clip_grad") > 0, "clip_grad")
	first, second := m.get("exp_avg_dtype"), m.get("exp_avg_sq_dtype")
	if strings.Contains(first, "bf") && strings.Contains(second, "bf") {
		m.set("train.moments", "bf16", "exp_avg_dtype", "exp_avg_sq_dtype")
	}
	m.recomputation()
	if n, err := strconv.Atoi(cmp.Or(m.get("cpu_offloading_num_layers"), "0")); err != nil || n < 0 {
		m.refuse("cpu_offloading_num_layers", "must be a whole number of at least 0")
	} else if n > 0 {
		m.set("train.offload_activations", n, "cpu_offloading_num_layers")
		if m.get("recompute_granularity") != "" || m.on("recompute_activations") {
			m.refuse("cpu_offloading_num_layers", "Megatron-LM does not start with it where activations are "+
				"computed again; leave it out, or recomputation")
		}
	}
}

// stack returns the program that trained, by what its version knows.
func (m *mapper) stack() string {
	switch {
	case m.on("deepspeed"):
		return "megatron-deepspeed"
	case m.get("transformer_impl") == "transformer_engine":
		return "megatron-te"
	case m.has("sequence_parallel"):
		return "megatron-2023"
	}
	return "megatron-2021"
}

// precision maps the widths of numbers.
func (m *mapper) precision() {
	precision, recipe := "fp32", ""
	switch {
	case m.get("fp4") != "":
		precision = "nvfp4"
	case m.get("fp8") != "" && m.get("fp8_recipe") == "mxfp8":
		precision = "mxfp8"
	case m.get("fp8") != "":
		precision = "fp8"
		recipe = recipes[m.get("fp8_recipe")]
		if recipe == "" {
			m.refuse("fp8_recipe", "psim knows delayed, tensorwise, blockwise and mxfp8")
		}
	case m.on("bf16"):
		precision = "bf16"
	case m.on("fp16"):
		precision = "fp16"
	}
	m.set("train.precision", precision, "bf16", "fp16", "fp8", "fp4")
	if recipe != "" {
		m.set("train.fp8_recipe", recipe, "fp8_recipe")
		weights := "16-bit"
		if m.on("fp8_param_gather") {
			weights = "8-bit"
		}
		m.set("train.weights", weights, "fp8_param_gather")
	}
	if precision != "fp32" {
		gradients := "fp32"
		if m.on("grad_reduce_in_bf16") ||
			m.has("accumulate_allreduce_grads_in_fp32") && !m.on("accumulate_allreduce_grads_in_fp32") &&
				(m.given == nil || precision == "fp16") {
			gradients = "bf16"
			if precision == "fp16" {
				gradients = "fp16"
			}
		}
		m.set("train.gradients", gradients, "accumulate_allreduce_grads_in_fp32", "grad_reduce_in_bf16")
	}
	if m.on("first_last_layers_bf16") && recipe+m.get("fp4") != "" {
		first, last := 1, 1
		if m.get("num_layers_at_start_in_bf16") != "" {
			first, last = m.integer("num_layers_at_start_in_bf16"), m.integer("num_layers_at_end_in_bf16")
		}
		m.set("train.bf16_first", first, "first_last_layers_bf16", "num_layers_at_start_in_bf16")
		m.set("train.bf16_last", last, "first_last_layers_bf16", "num_layers_at_end_in_bf16")
	}
}

// keptIn8Bits are the parts of train.keep_8bit, by arguments of megatron-core that are not Megatron-LM's.
var keptIn8Bits = map[string]string{
	"activation_func_fp8_input_store": "activation", "fp8_dot_product_attention": "attention",
}

// stored maps what waits in 8 bits for the backward.
func (m *mapper) stored() {
	var parts, from []string
	for _, argument := range slices.Sorted(maps.Keys(keptIn8Bits)) {
		if m.on(argument) {
			parts, from = append(parts, keptIn8Bits[argument]), append(from, argument)
		}
	}
	if parts != nil {
		m.set("train.keep_8bit", parts, from...)
	}
}

// punctuation reports whether a character stands between the words of a printed list.
func punctuation(r rune) bool { return strings.ContainsRune("[]', ", r) }

// recomputation maps what the backward computes again.
func (m *mapper) recomputation() {
	granularity, short := m.get("recompute_granularity"), m.on("recompute_activations")
	switch {
	case granularity == "" && short:
		granularity = "selective"
	case granularity == "" && (m.on("checkpoint_activations") || m.get("activations_checkpoint_method") != ""):
		granularity = "full" // before 2022
	}
	switch granularity {
	case "":
		m.set("train.recompute", "none", "recompute_granularity")
	case "full":
		m.set("train.recompute", "full", "recompute_granularity")
		if n := m.integer("recompute_num_layers"); n > 1 || m.get("recompute_method") == "block" {
			m.set("train.recompute_method", m.get("recompute_method"), "recompute_method")
			m.set("train.recompute_layers", n, "recompute_num_layers")
		}
	case "selective":
		var list []string
		for _, name := range strings.FieldsFunc(m.get("recompute_modules"), punctuation) {
			if known, ok := modules[name]; ok {
				name = known
			}
			list = append(list, name)
		}
		if len(list) == 0 || slices.Equal(list, []string{"core_attn"}) {
			m.set("train.recompute", "selective", "recompute_granularity", "recompute_modules")
			return
		}
		m.set("train.recompute", list, "recompute_granularity", "recompute_modules")
	default:
		m.refuse("recompute_granularity", "psim knows selective and full")
	}
}
