package export_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/configs"
	"psim/export"
	"psim/launch"
)

// builds parses a drawn plan, and skips one that psim refuses.
func (d drawn) builds(t *rapid.T) *configs.Config {
	c, err := configs.Parse("plan.toml", d.text())
	if err == nil {
		_, err = c.BuildFor(t.Context(), configs.BuildOptions{Folded: true, Brief: true})
	}
	if err != nil {
		t.Skip(err)
	}
	return c
}

// readBack reads what was written, on the machine of the drawn plan.
func readBack(t *rapid.T, d drawn, c *configs.Config, written []byte) *configs.Config {
	read, err := launch.Read([]launch.Input{{Label: "run.yaml", Data: written}}, launch.Options{Devices: int(c.Devices())})
	require.NoError(t, err, "%s", written)
	require.Zero(t, read.Unknown, "%v", read.Ignored)
	machine := map[string]any{"device": d["machine.device"]}
	for _, key := range []string{"devices_per_node", "network"} {
		if value := d["machine."+key]; value != nil {
			machine[key] = value
		}
	}
	read.Config["machine"] = machine
	return parsed(t, read.Config)
}

// TestNemoIsImported: a run_config.yaml that was written is read as the plan that it was written for.
func TestNemoIsImported(t *testing.T) {
	written := map[any]int{}
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		d["train.stack"] = "megatron-te"
		if d["train.precision"] == "fp8" {
			d["train.keep_8bit"] = pick(t, "kept", `["attention"]`, `["activation"]`, `["activation", "attention"]`)
			if d["model.family"] != "llama" {
				d["train.keep_8bit"] = `["attention"]`
			}
		}
		c := d.builds(t)
		var text bytes.Buffer
		followed, err := export.WriteNemo(t.Context(), &text, c)
		if d["schedule.partition"] == "balanced" && err != nil {
			require.ErrorContains(t, err, "schedule.partition", "a layout cannot part the last norm and the head")
			return
		}
		require.NoError(t, err, "%s", d.text())
		alike(t, c, readBack(t, d, c, text.Bytes()), len(followed.Changes) == 0)
		written[d["schedule.name"]]++
		written[d["model.family"]]++
		written[d["train.precision"]]++
	})
	require.Greater(t, len(written), 9, "%v", written)
}

// drawNanotron draws a plan of nanotron's.
func drawNanotron(t *rapid.T) drawn {
	d := drawn{
		"model.family": pick(t, "family", "llama", "llama", "mixtral"), "model.layers": 8, "model.hidden": 512, "model.heads": 8,
		"model.kv_heads": pick(t, "groups", 2, 8), "model.ffn_hidden": 1024, "model.vocab": pick(t, "vocab", 1024, 32000),
		"model.sequence_length": pick(t, "length", 512, 2048), "model.tied": rapid.Bool().Draw(t, "tied"), "train.stack": "nanotron",
		"train.precision": pick(t, "precision", "bf16", "bf16", "fp32"), "train.optimizer": pick(t, "optimizer", "adamw", "sgd"),
		"train.clip": rapid.Bool().Draw(t, "clip"), "train.recompute": pick(t, "recompute", "none", "full"),
		"machine.device": "h100-80gb-sxm", "machine.devices_per_node": 8, "machine.network": "ib-ndr",
	}
	if d["model.family"] == "mixtral" {
		d["model.experts"], d["model.experts_per_token"], d["model.expert_hidden"] = 4, 2, 256
		d["model.shared_experts"] = pick(t, "shared", 0, 2)
		if rapid.Bool().Draw(t, "dense") {
			d["model.dense_layers"] = 2
		}
	} else if rapid.Bool().Draw(t, "qwen") {
		d["model.qkv_bias"] = true
	}
	data, stages, tensor := pick(t, "data", 1, 2, 4), pick(t, "stages", 1, 2, 4), pick(t, "tensor", 1, 2)
	micro := pick(t, "micro", 1, 2)
	d["parallel.data"], d["parallel.zero"], d["batch.micro"] = data, pick(t, "zero", 0, 1), micro
	d["batch.global"], d["schedule.name"] = micro*data*stages*pick(t, "rounds", 1, 2), "ddp"
	if stages > 1 {
		d["schedule.name"], d["schedule.stages"] = pick(t, "order", "1f1b", "gpipe"), stages
	}
	if tensor > 1 {
		d["parallel.tensor"], d["parallel.sequence"] = tensor, rapid.Bool().Draw(t, "sequence")
		d["parallel.tensor_overlap"] = rapid.Bool().Draw(t, "async")
	}
	if d["model.family"] == "llama" && rapid.IntRange(0, 3).Draw(t, "parts") == 0 {
		d["parallel.context"], d["parallel.context_method"] = 2, pick(t, "method", "ring", "all-gather")
	}
	own := false
	if d["train.precision"] == "bf16" {
		if own = rapid.Bool().Draw(t, "own"); own {
			d["train.master_weights"], d["memory.gradient_copies"] = "none", false
		} else {
			d["train.gradients"] = "fp32"
		}
	}
	if (data > 1 || d["parallel.context"] != nil) && (d["parallel.zero"] == 0 || own) {
		d["parallel.overlap"], d["parallel.bucket"] = true, pick(t, "bucket", "25MiB", "100MiB")
	}
	return d
}

// TestNanotronIsImported: a YAML that was written is read as the plan that it was written for.
func TestNanotronIsImported(t *testing.T) {
	written := map[any]int{}
	rapid.Check(t, func(t *rapid.T) {
		d := drawNanotron(t)
		c := d.builds(t)
		var text bytes.Buffer
		followed, err := export.WriteNanotron(t.Context(), &text, c)
		require.NoError(t, err, "%s", d.text())
		alike(t, c, readBack(t, d, c, text.Bytes()), len(followed.Changes) == 0)
		written[d["schedule.name"]]++
		written[d["model.family"]]++
	})
	require.Len(t, written, 5)
}

// TestNanotronStarts: what nanotron 2411b022 does not start without is written, numbers as PyYAML reads them, and no
// clipping as null, since it clips to 0 what 0 says.
func TestNanotronStarts(t *testing.T) {
	for clip, want := range map[string]string{"true": "clip_grad: 1", "false": "clip_grad: null"} {
		c, err := configs.Parse("plan.toml", []byte("[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama3-8b\"\nwindow = 512\n"+
			"[batch]\nglobal = 8\n[parallel]\ndata = 8\n[train]\nprecision = \"bf16\"\nclip = "+clip+"\n[machine]\ndevice = \"h100-80gb-sxm\"\n"))
		require.NoError(t, err)
		var text bytes.Buffer
		_, err = export.WriteNanotron(t.Context(), &text, c)
		require.NoError(t, err)
		for _, line := range []string{
			want, "adam_eps: 1.0e-8", "init_method:", "weight_decay:", "learning_rate:", "train_steps:", "torch_adam_is_fused: true",
			"max_position_embeddings: 8192", "is_qwen2_config: true", "sliding_window_size: 512", "start_training_step: 1", "dataset: null",
		} {
			require.Contains(t, text.String(), line)
		}
	}
}

// drawTrainer draws a plan of transformers' Trainer.
func drawTrainer(t *rapid.T) drawn {
	return drawTrainerOf(t, drawn{
		"parallel.data": pick(t, "data", 1, 2, 8), "train.precision": pick(t, "precision", "bf16", "fp16", "fp32", "fp8"),
		"train.optimizer": pick(t, "optimizer", "adamw", "lion", "adafactor", "adamw-8bit"), "train.clip": rapid.Bool().Draw(t, "clip"),
	})
}

// drawTrainerOf draws a plan with some keys as in another one.
func drawTrainerOf(t *rapid.T, of drawn) drawn {
	data, micro, rounds := of["parallel.data"].(int), pick(t, "micro", 1, 2), pick(t, "rounds", 1, 3)
	d := drawn{
		"model.preset": "llama3-8b", "model.sequence_length": 2048, "schedule.name": "ddp", "parallel.data": data,
		"parallel.zero": pick(t, "zero", 0, 2, 3), "batch.micro": micro, "batch.global": micro * data * rounds, "machine.device": "h100-80gb-sxm",
		"train.precision": of["train.precision"], "train.optimizer": of["train.optimizer"], "train.clip": of["train.clip"],
		"train.recompute": pick(t, "recompute", "none", "full"),
		"model.kernels":   pick(t, "kernels", "eager", "compiled", "fused"),
	}
	half := d["train.precision"] != "fp32"
	if data == 1 {
		d["parallel.zero"] = 0
	}
	if d["train.recompute"] == "full" {
		d["train.stop_early"] = rapid.Bool().Draw(t, "stop early")
	}
	if d["train.precision"] == "fp8" {
		d["train.fp8_recipe"] = pick(t, "recipe", "delayed", "current")
	}
	if d["model.kernels"] == "fused" || d["model.kernels"] == "compiled" && rapid.Bool().Draw(t, "liger") {
		d["model.loss"] = "fused"
	}
	d["train.stack"], d["model.fp32_logits"] = "hf-trainer", half && d["model.loss"] == nil
	if half {
		d["model.attention"] = "flash"
	}
	switch {
	case d["parallel.zero"] == 3:
		if data == 8 && rapid.Bool().Draw(t, "in groups") {
			d["parallel.zero_group"] = 4
		}
		d["memory.fp32_shards"], d["parallel.gather"] = half, "copied"
		if rounds > 1 {
			d["parallel.sum_once"] = true
		}
	case d["parallel.zero"] == 2:
		d["parallel.overlap_gather"] = true
	case data > 1:
		d["parallel.collectives"], d["parallel.bucket"] = pick(t, "collectives", "nccl", "gloo"), "25MiB"
	}
	if d["parallel.zero"] == 0 && half {
		d["train.gradients"] = "fp32"
	}
	return d
}

// TestAccelerateIsImported: TrainingArguments and accelerate's file that were written are read as the plan that they were
// written for, with what the script decides as in the plan.
func TestAccelerateIsImported(t *testing.T) {
	written := map[any]int{}
	rapid.Check(t, func(t *rapid.T) {
		d := drawTrainer(t)
		c := d.builds(t)
		files, followed, err := export.Accelerate(t.Context(), c)
		require.NoError(t, err, "%s", d.text())
		require.Len(t, followed.Changes, 1, "only what the script decides: %v", followed.Changes)
		read, err := launch.Read([]launch.Input{
			{Label: "args.yaml", Data: files.Arguments}, {Label: "accelerate.yaml", Data: files.Launcher},
			{Label: "config.json", Data: []byte(`{"model_type": "llama"}`)},
		}, launch.Options{})
		require.NoError(t, err)
		require.Zero(t, read.Unknown, "%v", read.Ignored)
		config := read.Config
		config["machine"] = map[string]any{"device": "h100-80gb-sxm"}
		model := config["model"].(map[string]any)
		delete(model, "file")
		maps.Copy(model, map[string]any{"preset": "llama3-8b", "sequence_length": 2048})
		alike(t, c, parsed(t, config), true)
		written[d["parallel.zero"]]++
		written[d["train.precision"]]++
	})
	require.Len(t, written, 7)
}

// TestChangesNameKeys: what the Trainer has otherwise is named by its key, with its value here and in the configuration.
func TestChangesNameKeys(t *testing.T) {
	c, err := configs.LoadOn("llama3-8b", configs.Target{Device: "h100-80gb-sxm", Devices: 8}, "batch.global=64", "parallel.sum_once=false")
	require.NoError(t, err)
	_, followed, err := export.Accelerate(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []string{
		`what is not given is as in transformers' Trainer (train.stack = "hf-trainer")`,
		"FSDP keeps shards in fp32 (memory.fp32_shards = true)", `FSDP 2 copies what it gathers (parallel.gather = "copied")`,
		"the Trainer sums gradients once a step (parallel.sum_once = true; the configuration has false)",
		"the network and the length of a sample are your script's",
	}, followed.Changes)
}

// TestAccelerateIsPatched: the files of one plan become those of another one for as many devices by a patch, and only in
// lines that say what differs.
func TestAccelerateIsPatched(t *testing.T) {
	patched := 0
	rapid.Check(t, func(t *rapid.T) {
		one := drawTrainer(t)
		two := drawTrainerOf(t, one)
		for _, key := range []string{"train.fp8_recipe", "train.stop_early", "parallel.collectives"} {
			delete(one, key)
			delete(two, key)
		}
		for _, d := range []drawn{one, two} {
			d["batch.global"] = 48
			delete(d, "parallel.zero_group")
		}
		plans := [2]*configs.Config{one.builds(t), two.builds(t)}
		files, _, err := export.Accelerate(t.Context(), plans[0])
		if err != nil {
			t.Skip(err)
		}
		if _, _, err := export.Accelerate(t.Context(), plans[1]); err != nil {
			t.Skip(err)
		}
		inputs := []launch.Input{
			{Label: "args.yaml", Data: files.Arguments}, {Label: "accelerate.yaml", Data: files.Launcher},
			{Label: "config.json", Data: []byte(`{"model_type": "llama"}`)},
		}
		patch, err := export.PatchTrainer(t.Context(), plans, inputs, launch.Options{})
		require.NoError(t, err, "%s\n%s\n%s%s", one.text(), two.text(), files.Arguments, files.Launcher)
		require.LessOrEqual(t, patch.Lines, 12)
		if patch.Lines > 0 {
			patched++
		}
	})
	require.NotZero(t, patched)
}

// TestAssumptionsAreLeftAside: what no program is told is named, with what psim takes without it.
func TestAssumptionsAreLeftAside(t *testing.T) {
	c, err := configs.Load("llama3-70b", "memory.context=3GB")
	require.NoError(t, err)
	followed, err := export.WriteMegatron(t.Context(), io.Discard, c)
	require.NoError(t, err)
	require.Contains(t, strings.Join(followed.Changes, "\n"), "left aside: memory.context = 3GB; it is psim's assumption, which "+
		"nothing in Megatron-LM sets (1573MiB with its stack)")
	c, err = configs.Load("exec", "memory.keep_outputs=true")
	require.NoError(t, err)
	changes, err := export.WriteTorch(io.Discard, c)
	require.NoError(t, err)
	require.Contains(t, changes, "left aside: memory.keep_outputs; the program holds what PyTorch holds")
}

// TestNanotronAssumed: a plan that psim assumes is written as psim assumes it with nanotron, and that is said.
func TestNanotronAssumed(t *testing.T) {
	c, err := configs.LoadOn("model:llama3-8b", configs.Target{Device: "h100-80gb-sxm", Devices: 8})
	require.NoError(t, err)
	require.Equal(t, 3, c.Parallel.Zero)
	followed, err := export.WriteNanotron(t.Context(), io.Discard, c)
	require.NoError(t, err)
	require.Zero(t, followed.Config.Parallel.Zero)
	require.Contains(t, followed.Changes, "the plan that is assumed has parallel.zero = 0, not 3, with nanotron")
}

// TestOthersRefuse: a key that a program cannot follow is named.
func TestOthersRefuse(t *testing.T) {
	accelerate := func(ctx context.Context, _ io.Writer, c *configs.Config) (*export.Followed, error) {
		_, followed, err := export.Accelerate(ctx, c)
		return followed, err
	}
	for _, c := range []struct {
		write     func(context.Context, io.Writer, *configs.Config) (*export.Followed, error)
		set, want string
	}{
		{export.WriteNanotron, "parallel.zero=3", "parallel.zero: export nanotron: nanotron has 0 and 1"},
		{export.WriteNanotron, "train.precision=fp8", "train.precision: export nanotron: nanotron has bf16, fp16 and fp32"},
		{export.WriteNanotron, "train.optimizer=lion", "train.optimizer: export nanotron: nanotron has adamw and sgd"},
		{export.WriteNanotron, "train.recompute=selective", "train.recompute: export nanotron: nanotron knows none and full"},
		{export.WriteNanotron, "schedule.name=zb-h1 schedule.stages=2", "schedule.name: export nanotron: nanotron has 1f1b and gpipe (afab)"},
		{export.WriteNanotron, "model.preset=gpt2", "model: export nanotron: nanotron trains transformers of the families llama and mixtral"},
		{export.WriteNanotron, "parallel.bucket=20MB", "parallel.bucket: export nanotron: nanotron has 25MiB here, not 20MB"},
		{export.WriteNanotron, "train.adapter.kind=lora", "train.adapter.kind: export nanotron: nanotron's configuration has no adapters"},
		{accelerate, "train.adapter.kind=lora", "train.adapter.kind: export accelerate: transformers' Trainer's configuration has no adapters"},
		{export.WriteMegatron, "train.adapter.kind=lora", "train.adapter.kind: export megatron: Megatron-LM's configuration has no adapters"},
		{export.WriteTorchtitan, "train.adapter.kind=lora", "train.adapter.kind: export torchtitan: torchtitan's configuration has no adapters"},
		{export.WriteNemo, "schedule.name=gpipe schedule.stages=2", "schedule.name: export nemo: Megatron-LM has 1f1b and interleaved-1f1b"},
		{export.WriteNemo, "train.optimizer=adafactor", "train.optimizer: export nemo: Megatron-LM has adamw, sgd, sgd-momentum, lion and muon"},
		{accelerate, "parallel.zero=1", "parallel.zero: export accelerate: FSDP has 2 and 3, and replicas 0; psim export deepspeed writes 1"},
		{accelerate, "schedule.name=1f1b schedule.stages=2", "schedule.stages: export accelerate: transformers' Trainer has no key for it: 1"},
		{accelerate, "train.precision=mxfp8 machine.device=b200-180gb-sxm", "train.precision: export accelerate: accelerate has fp32, fp16, bf16 and fp8"},
		{accelerate, "train.optimizer=muon", "train.optimizer: export accelerate: the Trainer's are adamw"},
		{accelerate, "train.recompute=selective", "train.recompute: export accelerate: the Trainer knows none and full"},
		{accelerate, "model.kernels=te", "model.kernels: export accelerate: the Trainer's are eager or compiled"},
		{accelerate, "train.moments=bf16", "train.moments: export accelerate: transformers' Trainer has fp32 here, not bf16"},
		{export.WriteMegatron, "memory.keep_outputs=true schedule.stages=2 schedule.name=1f1b", "memory.keep_outputs: export megatron: Megatron-LM has false here, not true"},
		{export.WriteNemo, "memory.gradient_copies=true", "memory.gradient_copies: export nemo: Megatron-Bridge has false here, not true"},
		{export.WriteTorchtitan, "parallel.zero=3 memory.fp32_shards=false", "memory.fp32_shards: export torchtitan: torchtitan has true here, not false"},
		{export.WriteDeepSpeed, "memory.freed_gradients=true", "memory.freed_gradients: export deepspeed: DeepSpeed has false here, not true"},
		{export.WriteNanotron, "memory.freed_gradients=true", "memory.freed_gradients: export nanotron: nanotron has false here, not true"},
		{accelerate, "memory.freed_gradients=false train.stack=hf-trainer", "memory.freed_gradients: export accelerate: transformers' Trainer has true here, not false"},
		{accelerate, "parallel.bucket=25MB", "parallel.bucket: export accelerate: DDP's buckets are whole MiB"},
	} {
		plan, err := configs.Parse("plan.toml", []byte("[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama3-8b\"\n[batch]\nglobal = 16\nmicro = 1\n[parallel]\n"+
			"data = 8\n[train]\nprecision = \"bf16\"\n[machine]\ndevice = \"h100-80gb-sxm\"\n"))
		require.NoError(t, err)
		if plan, err = plan.With(strings.Fields(c.set)...); err == nil {
			_, err = c.write(t.Context(), &bytes.Buffer{}, plan)
		}
		require.ErrorContains(t, err, c.want, c.set)
	}
}

// TestAccelerateLoads: transformers' and accelerate's own readers understand what was written (make peers-accelerate).
func TestAccelerateLoads(t *testing.T) {
	python := os.Getenv("PSIM_ACCELERATE")
	if python == "" {
		t.Skip("PSIM_ACCELERATE names no Python with transformers and accelerate: make peers-accelerate")
	}
	for set, want := range map[string]string{
		"parallel.zero=0": `"distributed_type": "MULTI_GPU", "fsdp": {}, "micro": 1, "rounds": 2, "bf16": true, "fp16": false, "processes": 8`,
		"parallel.zero=3": `"distributed_type": "FSDP", "fsdp": {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "reshard_after_forward": "True", "version": "2"}`,
		"train.recompute=full train.stop_early=true": `"checkpointing": true, "checkpointing_kwargs": {"use_reentrant": false}`,
		"train.optimizer=adafactor train.clip=true":  `"optim": "adafactor", "clip": 1.0`,
		"train.precision=fp16":                       `"bf16": false, "fp16": true`,
	} {
		c, err := configs.Parse("plan.toml", []byte("[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama3-8b\"\n[batch]\nglobal = 16\nmicro = 1\n[parallel]\n"+
			"data = 8\n[train]\nprecision = \"bf16\"\n[machine]\ndevice = \"h100-80gb-sxm\"\n"))
		require.NoError(t, err)
		c, err = c.With(strings.Fields(set)...)
		require.NoError(t, err, set)
		files, _, err := export.Accelerate(t.Context(), c)
		require.NoError(t, err, set)
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "args.yaml"), files.Arguments, 0o666))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "accelerate.yaml"), files.Launcher, 0o666))
		command := exec.Command(python, "../tools/peers/accelerate_config.py", folder)
		var problems bytes.Buffer
		command.Stderr = &problems
		out, err := command.Output()
		require.NoError(t, err, "%s: %s", set, problems.String())
		require.Contains(t, string(out), want, set)
	}
}
