package keyed

import "strings"

// precision returns what products are computed in. The arguments count before accelerate's file, and what DeepSpeed
// says is compared with them.
func (t *trainer) precision() string {
	if t.bits != "" {
		return t.bits
	}
	const wide, old, key = "bf16", "fp16", "mixed_precision"
	half, former := t.arguments.is(wide), t.arguments.is(old)
	word := strings.ToLower(t.launcher.word(key, "no"))
	switch {
	case half && former:
		t.arguments.refuseKey(old, "goes not with bf16; remove one of them")
	case half:
		word = wide
	case former:
		word = old
	case t.trl && t.arguments.keys[wide] == nil:
		word = wide
	case t.launcher.is(old) && t.launcher.keys[key] == nil:
		word = old
	}
	switch word {
	case "no", "false", "fp32":
		t.bits = "fp32"
	case wide, old, "fp8":
		t.bits = word
	default:
		t.launcher.refuseKey(key, "psim knows no, fp16, bf16 and fp8")
		t.bits = "fp32"
	}
	return t.bits
}

// training maps precision, optimizer and recomputation.
func (t *trainer) training() {
	divided := t.inArguments() || t.launcher.kind() == "FSDP"
	t.Set("train.stack", "hf-trainer")
	t.adapter()
	switch bits := t.precision(); {
	case t.engine != nil:
		t.engine.deepspeedPrecision()
	default:
		t.Set("train.precision", bits, "bf16", "fp16", "mixed_precision")
		if bits == "fp8" {
			t.fp8()
		}
		switch {
		case divided || t.adapts():
		case t.loadedNarrow():
		default:
			if bits != "fp32" {
				t.Set("train.gradients", "fp32", "bf16", "fp16")
			}
			t.Ask("train.master_weights", "the script decides in which type weights are loaded: fp32 is assumed; "+
				"--set train.precision=bf16 --set train.master_weights=none --set train.gradients=bf16 "+
				"--set train.moments=bf16 says 16 bits")
		}
	}
	if t.engine != nil && t.engine.keys["optimizer.type"] != nil || len(t.arguments.keys) == 0 {
		if t.engine != nil {
			t.engine.deepspeedOptimizer()
		}
	} else {
		name := t.arguments.word("optim", "adamw_torch_fused")
		if t.arguments.is("adafactor") {
			name = "adafactor"
		}
		optimizer := trainerOptimizers[name]
		if optimizer == "" {
			t.arguments.refuseKey("optim", "psim knows adamw_torch, adamw_torch_fused, adamw_bnb_8bit, "+
				"paged_adamw_8bit, adafactor, lion_32bit and sgd")
		}
		t.Set("train.optimizer", optimizer, "optim")
		if name == manyKernels {
			t.Set("train.update_kernels", "foreach", "optim")
		}
		t.Set("train.clip", t.arguments.real("max_grad_norm", 1) > 0, "max_grad_norm")
	}
	t.recomputation()
}

// loadedNarrow maps weights that are loaded in 16 bits, in which they then have their gradients and moments, too.
func (t *trainer) loadedNarrow() bool {
	const wide = "bf16"
	for _, key := range []string{"dtype", "torch_dtype"} {
		if word := t.arguments.word(key, ""); word != "bfloat16" && word != wide {
			continue
		}
		t.arguments.assumed = append(t.arguments.assumed, key) // said here
		t.Set("train.precision", wide, key)
		t.Set("train.master_weights", "none", key)
		t.Set("train.gradients", wide, key)
		t.Set("train.moments", wide, key)
		return true
	}
	return false
}

// fp8 maps whose 8 bits they are.
func (t *trainer) fp8() {
	const key = "fp8_config.backend"
	recipe := "current"
	switch word := strings.ToUpper(t.launcher.word(key, "TE")); word {
	case "TE":
		recipe = "delayed"
	case "AO", "TORCHAO":
	default:
		t.launcher.refuseKey(key, "psim knows TE and AO")
	}
	t.Set("train.fp8_recipe", recipe, key)
}

// recomputation maps what the backward computes again.
func (t *trainer) recomputation() {
	key := "activation_checkpointing"
	if t.arguments.keys[key] == nil {
		key = "gradient_checkpointing"
	}
	wrapped := t.option("activation_checkpointing")
	divided := t.inArguments() || t.launcher.kind() == "FSDP"
	byFSDP := divided && wrapped.on(false)
	on := t.arguments.is(key) || byFSDP || t.trl && t.arguments.keys[key] == nil
	if len(t.arguments.keys) == 0 && !byFSDP {
		t.Ask("train.recompute", "the script decides whether activations are computed again: no is assumed; --set "+
			"train.recompute=full says it")
		return
	}
	if !on {
		t.Set("train.recompute", "none", key)
		return
	}
	t.Set("train.recompute", "full", key)
	again := t.arguments.is(key+"_kwargs.use_reentrant") && !byFSDP
	t.Set("train.stop_early", !again, key+"_kwargs.use_reentrant")
}

// adapts reports whether there are low-rank adapters.
func (t *trainer) adapts() bool { return t.arguments.is("use_peft") }

// adapter maps low-rank adapters.
func (t *trainer) adapter() {
	k := t.arguments
	if !t.adapts() {
		return
	}
	kind := "lora"
	switch {
	case k.is("load_in_4bit"):
		kind = "qlora"
		t.Set("train.adapter.double_quant", k.is("use_bnb_nested_quant"), "use_bnb_nested_quant")
	case k.is("load_in_8bit"):
		k.refuseKey("load_in_8bit", "psim knows weights of 16 bits and of 4 bits")
	}
	t.Set("train.adapter.kind", kind, "use_peft", "load_in_4bit")
	t.Set("train.adapter.rank", k.degreeOr("lora_r", 16), "lora_r")
	t.Set("train.adapter.dropout", k.real("lora_dropout", 0.05), "lora_dropout")
	switch targets := k.keys["lora_target_modules"].(type) {
	case nil:
		t.Set("train.adapter.targets", []string{"q_proj", "v_proj"}, "lora_target_modules")
		t.Ask("train.adapter.targets", "PEFT decides by the type of network: q_proj and v_proj are assumed; "+
			`--set 'train.adapter.targets=["q_proj", "k_proj"]' says it`)
	case []any:
		list := make([]string, 0, len(targets))
		for _, target := range targets {
			list = append(list, (&file{keys: map[string]any{"": target}}).word("", ""))
		}
		t.Set("train.adapter.targets", list, "lora_target_modules")
	default:
		t.Set("train.adapter.targets", []string{k.word("lora_target_modules", "")}, "lora_target_modules")
	}
}

// network maps the length of a sample, and the kernels.
func (t *trainer) network() {
	const block = "block_size" // of run_clm.py
	k := t.arguments
	switch {
	case t.trl:
		key := "max_length"
		if k.keys[key] == nil {
			key = "max_seq_length"
		}
		t.Set("model.sequence_length", k.degreeOr(key, 1024), key)
		if !k.is("packing") {
			t.Ask("data.lengths", "without packing samples are shorter than "+key+", which is assumed; --set "+
				"data.lengths=FILE --set data.batches=padded says how long they are")
		}
	case k.keys[block] != nil: // texts joined and cut, so that all samples have it
		t.Set("model.sequence_length", k.degree(block), block)
	default:
		t.askLength(t.files)
	}
	kernels := "eager"
	const backend = "dynamo_config.dynamo_backend"
	dynamo := strings.ToUpper(t.launcher.word(backend, t.launcher.word("dynamo_backend", "NO")))
	switch {
	case k.is("torch_compile") || k.keys["torch_compile_backend"] != nil || k.keys["torch_compile_mode"] != nil ||
		dynamo != "NO" && dynamo != "FALSE":
		kernels = "compiled"
	case k.is("use_liger_kernel"):
		kernels = "fused"
	}
	t.Set("model.kernels", kernels, "torch_compile", "use_liger_kernel", backend)
	half := t.precision() != "fp32"
	if k.is("use_liger_kernel") {
		t.Set("model.loss", "fused", "use_liger_kernel")
	}
	t.Set("model.fp32_logits", half && !k.is("use_liger_kernel"))
	const attention = "attn_implementation"
	kernel := trainerAttention[k.word(attention, "sdpa")]
	if kernel == "" {
		k.refuseKey(attention, "psim knows eager, sdpa, flash_attention_2, flash_attention_3 and flex_attention")
	}
	if half || k.keys[attention] != nil {
		t.Set("model.attention", kernel, attention)
	}
}
