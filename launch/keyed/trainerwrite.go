package keyed

import (
	"slices"

	"psim/internal/units"
)

// TrainerVersion names the versions whose files TrainerFiles writes.
const TrainerVersion = "transformers 5.23, accelerate 1.15"

// TrainerFiles returns transformers' TrainingArguments and accelerate's file that train by keys of an Import, resolved.
// The network and the length of a sample are the script's. An error is an *understood.Unsayable.
func TrainerFiles(said map[string]any) (arguments, launcher map[string]any, err error) {
	w := &keyWriter{said: said}
	arguments = map[string]any{"output_dir": "out"}
	launcher = map[string]any{"compute_environment": "LOCAL_MACHINE", "machine_rank": 0, "num_machines": 1}
	w.trainerGroups(launcher)
	w.trainerBatch(arguments)
	w.trainerShards(arguments, launcher)
	w.trainerPrecision(arguments, launcher)
	w.trainerOptimizer(arguments)
	w.trainerKernels(arguments)
	if w.refused != nil {
		return nil, nil, w.refused
	}
	return arguments, launcher, nil
}

// trainerGroups writes the groups of devices.
func (w *keyWriter) trainerGroups(launcher map[string]any) {
	for _, key := range []string{"schedule.stages", "parallel.expert"} {
		if w.number(key, 1) > 1 {
			w.refuse(key, "transformers' Trainer has no key for it: 1")
		}
	}
	tensor, context := w.number("parallel.tensor", 1), w.number("parallel.context", 1)
	data := w.number("parallel.data", 1)
	launcher["num_processes"] = product(data, tensor, context)
	const name = "parallelism_config_"
	groups := map[string]any{}
	if tensor > 1 {
		groups[name+"tp_size"] = tensor
		if w.text("parallel.sequence") == "true" {
			w.refuse("parallel.sequence", "transformers divides products alone: false")
		}
	}
	if context > 1 {
		switch method := w.text("parallel.context_method"); method {
		case "ulysses":
			groups[name+"sp_size"] = context
		default:
			groups[name+"cp_size"] = context
			strategy := word(titanRotations, method)
			if strategy == "" {
				w.refuse("parallel.context_method", "accelerate has all-gather, ring and ulysses")
			}
			groups[name+"cp_comm_strategy"] = strategy
		}
	}
	shards := data
	if w.number("parallel.zero", 0) == 3 {
		shards = w.number("parallel.zero_group", data)
	}
	if shards < data {
		groups[name+"dp_replicate_size"] = data / max(1, shards)
	}
	if len(groups) > 0 {
		if w.number("parallel.zero", 0) > 0 {
			groups[name+"dp_shard_size"] = shards
		} else {
			groups[name+"dp_replicate_size"] = data
		}
		launcher["parallelism_config"] = groups
	}
}

// trainerBatch writes the batch.
func (w *keyWriter) trainerBatch(arguments map[string]any) {
	arguments["per_device_train_batch_size"] = w.number("batch.micro", 1)
	arguments["gradient_accumulation_steps"] = w.rounds()
}

// rounds returns how many microbatches a replica trains a step.
func (w *keyWriter) rounds() int {
	return w.number("batch.global", 1) / max(1, product(w.number("batch.micro", 1), w.number("parallel.data", 1)))
}

// trainerShards writes what replicas divide, and how they sum gradients.
func (w *keyWriter) trainerShards(arguments, launcher map[string]any) {
	zero := w.number("parallel.zero", 0)
	switch {
	case zero == 1:
		w.refuse("parallel.zero", "FSDP has 2 and 3, and replicas 0; psim export deepspeed writes 1")
	case zero > 1:
		launcher["distributed_type"] = "FSDP"
		launcher["fsdp_config"] = map[string]any{
			"fsdp_version": 2, "fsdp_reshard_after_forward": zero == 3, "fsdp_auto_wrap_policy": wrapBlocks,
			"fsdp_state_dict_type": "SHARDED_STATE_DICT", "fsdp_cpu_ram_efficient_loading": true,
			"fsdp_activation_checkpointing": false,
		}
		return
	case launcher["num_processes"] == 1:
		launcher["distributed_type"] = "NO"
		return
	}
	launcher["distributed_type"] = "MULTI_GPU"
	if w.number("parallel.data", 1) < 2 {
		return
	}
	if size, err := units.ParseBytes(w.text("parallel.bucket")); err == nil && size > 0 {
		if size%(1<<20) != 0 {
			w.refuse("parallel.bucket", "DDP's buckets are whole MiB, as in \"25MiB\"")
		}
		arguments["ddp_bucket_cap_mb"] = int(size >> 20)
	}
	if backend := w.text("parallel.collectives"); backend != "" {
		arguments["ddp_backend"] = backend
	}
}

// trainerPrecision writes what products are computed in.
func (w *keyWriter) trainerPrecision(arguments, launcher map[string]any) {
	precision := w.text("train.precision")
	launcher["mixed_precision"] = precision
	arguments["bf16"], arguments["fp16"] = precision == "bf16", precision == "fp16"
	switch precision {
	case "bf16", "fp16":
	case "fp32":
		launcher["mixed_precision"] = "no"
	case "fp8":
		backend := map[string]string{"delayed": "TE", "current": "AO"}[w.text("train.fp8_recipe")]
		if backend == "" {
			w.refuse("train.fp8_recipe", "accelerate has delayed (Transformer Engine) and current (torchao)")
		}
		launcher["fp8_config"] = map[string]any{"backend": backend}
	default:
		w.refuse("train.precision", "accelerate has fp32, fp16, bf16 and fp8")
	}
}

// trainerOptimizer writes the optimizer and what the backward computes again.
func (w *keyWriter) trainerOptimizer(arguments map[string]any) {
	names := map[string]string{"adamw": "adamw_torch_fused", "adamw-8bit": "adamw_bnb_8bit"}
	optimizer := w.text("train.optimizer")
	name := names[optimizer]
	if w.text("train.update_kernels") == "foreach" {
		name = manyKernels
	}
	if name == "" {
		name = word(trainerOptimizers, optimizer)
	}
	if name == "" {
		w.refuse("train.optimizer", "the Trainer's are adamw, adamw-8bit, paged-adamw-8bit, adafactor, lion and sgd")
	}
	arguments["optim"] = name
	arguments["max_grad_norm"] = map[bool]float64{true: 1, false: 0}[w.text("train.clip") == "true"]
	recompute := w.text("train.recompute")
	if !slices.Contains([]string{"none", "full"}, recompute) {
		w.refuse("train.recompute", "the Trainer knows none and full (gradient_checkpointing)")
	}
	if arguments["gradient_checkpointing"] = recompute == "full"; recompute == "full" {
		arguments["gradient_checkpointing_kwargs"] = map[string]any{
			"use_reentrant": w.text("train.stop_early") != "true",
		}
	}
}

// trainerKernels writes whose kernels run between products.
func (w *keyWriter) trainerKernels(arguments map[string]any) {
	kernels, fused := w.text("model.kernels"), w.text("model.loss") == "fused"
	switch {
	case kernels == "compiled":
	case kernels == "fused" && fused, kernels == "eager" && !fused:
	case fused:
		w.refuse("model.loss", `Liger's loss comes with its kernels; set model.kernels = "fused" or "compiled"`)
	default:
		w.refuse("model.kernels", "the Trainer's are eager or compiled, or fused with model.loss = \"fused\" (Liger's)")
	}
	arguments["torch_compile"], arguments["use_liger_kernel"] = kernels == "compiled", fused
	if half := w.text("train.precision") != "fp32"; half && w.text("model.attention") != "flash" {
		w.refuse("model.attention", "transformers loads networks with sdpa: flash")
	}
}
