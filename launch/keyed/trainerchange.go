package keyed

import (
	"slices"
	"strings"

	"psim/launch/understood"
)

// The parts of a run of transformers' Trainer that have keys: TrainingArguments, accelerate's file, and the
// configuration of DeepSpeed.
const (
	ArgumentsPart = "arguments"
	LauncherPart  = "launcher"
	EnginePart    = "engine"
)

// PartOf returns the part of a run of transformers' Trainer that a file is; "" for another file.
func PartOf(f understood.Input) string {
	switch {
	case IsNetwork(f.Data):
	case isAccelerate(f.Data):
		return LauncherPart
	case isTrainer(f.Data):
		return ArgumentsPart
	case isDeepSpeed(f.Data):
		return EnginePart
	}
	return ""
}

// A Change gives a key of a part another value.
type Change struct {
	Part, Key string
	Value     any
	// Otherwise is what a key that is not given stands for; nil for a key that is only changed where it is given.
	Otherwise any
}

// Switch returns the flags that stand for a value of accelerate's distributed_type; "" for another key.
func (c Change) Switch() (on string, off []string) {
	if c.Part != LauncherPart || c.Key != "distributed_type" {
		return "", nil
	}
	for flag, kind := range launchKinds {
		if kind == c.Value {
			on = "--" + flag
		} else {
			off = append(off, "--"+flag)
		}
	}
	slices.Sort(off)
	return on, off
}

// Flag returns the flag of a key.
func (c Change) Flag() string {
	if c.Part == LauncherPart {
		return "--" + c.Key[strings.LastIndex(c.Key, ".")+1:]
	}
	return "--" + c.Key
}

// TrainerChanges lists ways in which the Trainer can be told a key of an Import as it is in said, resolved: changes
// that are made together.
func TrainerChanges(key string, said map[string]any) [][]Change {
	w := &keyWriter{said: said}
	switch key {
	case "batch.micro", "batch.global", "schedule.microbatches":
		return [][]Change{w.batchChanges(), {
			{EnginePart, "train_micro_batch_size_per_gpu", w.number("batch.micro", 1), ""},
			{EnginePart, "gradient_accumulation_steps", w.rounds(), ""},
		}}
	case "train.recompute":
		return [][]Change{w.recomputeChanges()}
	case "parallel.zero":
		return w.shardChanges()
	case "parallel.tensor", "parallel.context", "parallel.context_method", "parallel.data":
		return [][]Change{append(w.groupChanges(), w.batchChanges()...)}
	case "model.kernels", "model.loss":
		arguments := map[string]any{}
		w.trainerKernels(arguments)
		return [][]Change{{
			{ArgumentsPart, "torch_compile", arguments["torch_compile"], false},
			{ArgumentsPart, "use_liger_kernel", arguments["use_liger_kernel"], false},
		}}
	case "train.optimizer":
		arguments := map[string]any{}
		w.trainerOptimizer(arguments)
		return [][]Change{{{ArgumentsPart, "optim", arguments["optim"], ""}}}
	}
	return nil
}

// batchChanges say how many samples a device takes at once, and how often a step.
func (w *keyWriter) batchChanges() []Change {
	const size, steps = "per_device_train_batch_size", "gradient_accumulation_steps"
	micro, rounds := w.number("batch.micro", 1), w.rounds()
	return []Change{
		{ArgumentsPart, size, micro, 8}, {ArgumentsPart, steps, rounds, 1},
		{EnginePart, "train_micro_batch_size_per_gpu", micro, nil}, {EnginePart, steps, rounds, nil},
		{EnginePart, "train_batch_size", w.number("batch.global", 1), nil},
		{LauncherPart, "deepspeed_config." + steps, rounds, nil},
	}
}

// recomputeChanges say whether the backward computes again. FSDP's own switch is left on or off with it.
func (w *keyWriter) recomputeChanges() []Change {
	on := w.text("train.recompute") == "full"
	otherwise := any(false)
	if !on {
		otherwise = "" // trl's is true
	}
	list := []Change{{ArgumentsPart, "gradient_checkpointing", on, otherwise}}
	for _, key := range []string{"fsdp_activation_checkpointing", "activation_checkpointing"} {
		list = append(list, Change{LauncherPart, "fsdp_config." + key, on, nil},
			Change{ArgumentsPart, "fsdp_config." + key, on, nil})
	}
	return list
}

// shardChanges say what replicas divide: in DeepSpeed, in accelerate's FSDP, and in the arguments.
func (w *keyWriter) shardChanges() (list [][]Change) {
	zero := w.number("parallel.zero", 0)
	list = [][]Change{
		{{EnginePart, "zero_optimization.stage", zero, 0}}, {{LauncherPart, "deepspeed_config.zero_stage", zero, nil}},
	}
	if zero == 1 { // which FSDP has not
		return list
	}
	const section, kind = "fsdp_config.", "distributed_type"
	old := map[int]string{0: "NO_SHARD", 2: "SHARD_GRAD_OP", 3: "FULL_SHARD"}[zero]
	for _, part := range []string{LauncherPart, ArgumentsPart} {
		for _, key := range []string{"fsdp_sharding_strategy", "sharding_strategy"} {
			list = append(list, []Change{{part, section + key, old, nil}})
		}
	}
	words := map[int]string{0: "", 2: "shard_grad_op auto_wrap", 3: "full_shard auto_wrap"}[zero]
	list = append(list, []Change{{ArgumentsPart, "fsdp", words, nil}})
	if zero == 0 {
		return append(list, []Change{{LauncherPart, kind, "MULTI_GPU", nil}})
	}
	again := zero == 3
	return append(list,
		[]Change{{ArgumentsPart, section + "reshard_after_forward", again, nil}},
		[]Change{{ArgumentsPart, section + "fsdp_reshard_after_forward", again, nil}},
		[]Change{{LauncherPart, section + "fsdp_reshard_after_forward", again, true}},
		[]Change{
			{LauncherPart, kind, "FSDP", nil}, {LauncherPart, section + "fsdp_version", 2, 1},
			{LauncherPart, section + "fsdp_auto_wrap_policy", wrapBlocks, ""},
			{LauncherPart, section + "fsdp_reshard_after_forward", again, ""},
		},
		[]Change{{ArgumentsPart, "fsdp", words, ""}},
	)
}

// groupChanges say how devices are grouped.
func (w *keyWriter) groupChanges() (list []Change) {
	launcher := map[string]any{}
	w.trainerGroups(launcher)
	groups, _ := launcher["parallelism_config"].(map[string]any)
	for _, name := range []string{"tp_size", "cp_size", "sp_size", "dp_replicate_size", "dp_shard_size"} {
		key := "parallelism_config_" + name
		value := groups[key]
		if value == nil {
			value = 1
		}
		list = append(list, Change{LauncherPart, "parallelism_config." + key, value, 1})
	}
	const method = "parallelism_config_cp_comm_strategy"
	if groups[method] != nil {
		list = append(list, Change{LauncherPart, "parallelism_config." + method, groups[method], ""})
	}
	return append(list, Change{EnginePart, "tensor_parallel.autotp_size", w.number("parallel.tensor", 1), nil})
}
