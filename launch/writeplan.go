package launch

import (
	"strconv"
	"strings"
)

// groups writes the groups of devices.
func (w *writer) groups() {
	w.counts("parallel.tensor", "schedule.stages", "parallel.context")
	if w.size("parallel.tensor") > 1 {
		w.turns("parallel.sequence")
	}
	if w.size("parallel.context") > 1 {
		w.put("cp_comm_type", saying(contextMethods, w.text("parallel.context_method")))
	}
	if w.number("model.experts") > 0 {
		w.counts("parallel.expert", "parallel.expert_tensor")
		if w.on("parallel.expert_overlap") {
			w.turns("parallel.expert_overlap", "parallel.delay_weights")
		}
	}
	if w.text("parallel.order") == "tp-pp-dp" {
		w.put("use_tp_pp_dp_mapping", true)
	}
}

// pipeline writes the order of the pipeline and its cut.
func (w *writer) pipeline() {
	switch w.text("schedule.name") {
	case "ddp":
		return
	case "1f1b":
	case "interleaved-1f1b":
		w.counts("schedule.group")
	default:
		w.refuse("schedule.name", "Megatron-LM has 1f1b and interleaved-1f1b, and ddp without stages")
		return
	}
	if list, ok := w.value("schedule.partition").([]int); ok {
		w.put("pipeline_model_parallel_layout", w.layout(list))
		return
	}
	if n := w.number("schedule.virtual_stages"); n > 1 {
		w.put("num_virtual_stages_per_pipeline_rank", n)
	}
	w.counts("schedule.first_blocks", "schedule.last_blocks")
}

// layout writes which layers every stage has. A network has a layer before its
// blocks, and a norm and a head after them.
func (w *writer) layout(list []int) string {
	blocks, further := w.number("model.layers"), w.number("model.mtp_layers")
	layers := "E" + strings.Repeat("t", blocks) + "-" + strings.Repeat("m", further) + "L"
	var parts []string
	for i, n := range list {
		n = min(n, len(layers))
		part := layers[:n]
		if i < len(list)-1 && (strings.HasSuffix(part, "-") || strings.HasSuffix(part, "L") || n == 0) {
			w.refuse("schedule.partition", "Megatron-LM's layout keeps the last norm with what follows, and "+
				`this cut does not; set partition = "blocks"`)
		}
		parts, layers = append(parts, strings.Replace(part, "-", "", 1)), layers[n:]
	}
	return strings.Join(parts, "|")
}

// shards writes what replicas divide, and how they sum gradients.
func (w *writer) shards() {
	replicas := w.size("parallel.data") * w.size("parallel.context")
	zero := w.number("parallel.zero")
	if replicas > 1 {
		w.turns("parallel.overlap")
		text, ok := strings.CutSuffix(w.text("parallel.bucket"), " gradients")
		if n, err := strconv.Atoi(text); ok && err == nil && zero < 2 {
			w.put("ddp_bucket_size", n)
		}
	}
	if zero == 0 {
		return
	}
	w.put("use_distributed_optimizer", true)
	if zero == 1 {
		if w.on("parallel.overlap_gather") && replicas > 1 {
			w.turns("parallel.overlap_gather")
			if !w.on("parallel.overlap") {
				w.refuse("parallel.overlap_gather", "Megatron-LM overlaps gathers only where it overlaps the sums of "+
					"gradients; set parallel.overlap=true, or this to false")
			}
		}
		return
	}
	w.put("use_megatron_fsdp", true)
	w.put("data_parallel_sharding_strategy", saying(strategies, zero))
	w.put("ckpt_format", "fsdp_dtensor") // which it needs
}

// samples writes the batch.
func (w *writer) samples() { w.counts("batch.micro", "batch.global") }

// training writes the layers' program and the optimizer.
func (w *writer) training() {
	if w.local() {
		w.put("transformer_impl", "local")
	}
	switch optimizer := w.text("train.optimizer"); optimizer {
	case "sgd":
		w.put("optimizer", "sgd")
		w.put("sgd_momentum", 0)
	default:
		word := saying(optimizers, optimizer)
		if word == "" {
			w.refuse("train.optimizer", "Megatron-LM has adamw, sgd, sgd-momentum, lion and muon")
		}
		w.put("optimizer", word)
	}
	if w.text("train.moments") == "bf16" {
		w.put("use_precision_aware_optimizer", true)
		w.put("exp_avg_dtype", "bf16")
		w.put("exp_avg_sq_dtype", "bf16")
	}
	clip := 0.0
	if w.on("train.clip") {
		clip = 1
	}
	w.put("clip_grad", clip)
}

// numbersOfBits writes the precision.
func (w *writer) numbersOfBits() {
	precision := w.text("train.precision")
	if precision == "fp32" {
		return
	}
	half := "bf16"
	switch precision {
	case "fp16":
		half = "fp16"
	case "fp8":
		w.put("fp8", "hybrid")
		w.put("fp8_recipe", saying(recipes, w.text("train.fp8_recipe")))
		w.put("fp8_param_gather", w.text("train.weights") == "8-bit")
	case "mxfp8":
		w.put("fp8", "e4m3")
		w.put("fp8_recipe", "mxfp8")
	case "nvfp4":
		w.put("fp4", "e2m1")
	}
	w.put(half, true)
	switch gradients := w.text("train.gradients"); {
	case gradients == "bf16" && half == "bf16":
		w.put("grad_reduce_in_bf16", true)
	case gradients == "fp32" && half == "fp16":
		w.put("accumulate_allreduce_grads_in_fp32", true)
	}
	if first, last := w.number("train.bf16_first"), w.number("train.bf16_last"); first+last > 0 {
		w.put("first_last_layers_bf16", true)
		w.put("num_layers_at_start_in_bf16", first)
		w.put("num_layers_at_end_in_bf16", last)
	}
}

// stored writes what waits in 8 bits for the backward, for Megatron-Bridge: Megatron-LM has no flags for it.
func (w *writer) stored() {
	for part := range strings.SplitSeq(w.text("train.keep_8bit"), ",") {
		if argument := saying(keptIn8Bits, part); argument != "" {
			w.put(argument, true)
		}
	}
}

// repeated writes what the backward computes again, and what waits for it in the memory of the host.
func (w *writer) repeated() {
	if n := w.number("train.offload_activations"); n > 0 {
		w.put("cpu_offloading_num_layers", n)
		if how := w.text("train.recompute"); how != "none" && how != "" {
			w.refuse("train.offload_activations", "Megatron-LM has it without recomputation; set train.recompute = "+
				"none, or this to 0")
		}
	}
	switch how := w.text("train.recompute"); how {
	case "none", "":
	case "selective":
		w.put("recompute_granularity", "selective")
	case "full":
		w.put("recompute_granularity", "full")
		w.put("recompute_method", w.text("train.recompute_method"))
		w.put("recompute_num_layers", w.size("train.recompute_layers"))
	default:
		list := strings.Split(how, ",")
		for i, name := range list {
			if word := saying(modules, name); word != "" {
				list[i] = word
			}
		}
		w.put("recompute_granularity", "selective")
		w.put("recompute_modules", strings.Join(list, " "))
	}
}
