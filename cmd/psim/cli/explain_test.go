package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch"
	"psim/results/judged"
)

// TestEmitted: a plan that changes several files is a patch, which makes them what was proposed; - is stdout, alone.
func TestEmitted(t *testing.T) {
	folder, err := filepath.Abs("../../../launch/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for _, name := range []string{"run.sh", "common.sh"} {
		data, err := os.ReadFile(folder + "/" + name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
	command := "psim explain run.sh common.sh " + folder + "/train.log --device h100-80gb-sxm --devices-per-node 8 " +
		"--network ib-hdr --emit megatron -o "
	stdout, stderr, code := psim(t, command+"better.sh")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "wrote better.sh.patch; patch -p0 applies it to the files")
	patch, err := os.ReadFile("better.sh.patch")
	require.NoError(t, err)
	require.Contains(t, stdout, string(patch))
	for _, name := range []string{"run.sh", "common.sh"} {
		require.Contains(t, string(patch), "+++ "+name+"\n")
	}
	stdout, stderr, code = psim(t, command+"-")
	require.Zero(t, code, stderr)
	require.Equal(t, string(patch), stdout)
	require.Contains(t, stderr, ": 5.20 s, 4.30 s expected ")

	// Where Megatron-LM's layout cannot say how the fastest plan is cut, the fastest that is cut as the script is.
	stdout, stderr, code = psim(t, strings.Replace(command, "ib-hdr", "ib-ndr", 1)+"ndr.patch")
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "no change of the script")
	require.NotContains(t, stdout, "schedule.partition")
	require.Contains(t, stdout, "--microbatch-group-size-per-virtual-pipeline-stage 2")
}

// TestEmittedTrainer: what starts transformers' Trainer or DeepSpeed is changed where it says a thing, and a patch that
// cannot be written is refused before any work.
func TestEmittedTrainer(t *testing.T) {
	folder, err := filepath.Abs("../../../launch/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for _, name := range []string{"finetune.sh", "accelerate.yaml"} {
		data, err := os.ReadFile(folder + "/" + name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
	for name, text := range map[string]string{
		"config.json": `{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, ` +
			`"num_hidden_layers": 32, "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "hidden_act": "silu"}`,
		"ds.json": "{\n  \"zero_optimization\": {\"stage\": 3},\n  \"bf16\": {\"enabled\": true},\n  \"train_micro_batch_size_per_gpu\": 1,\n" +
			"  \"gradient_accumulation_steps\": 8\n}\n",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	const machine = " --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr --measured 12s --quiet"
	stdout, stderr, code := psim(t, "psim explain finetune.sh accelerate.yaml config.json --emit accelerate -o b.patch"+machine)
	require.Zero(t, code, stderr)
	require.Equal(t, "wrote b.patch; patch -p0 applies it to the files\n", stderr)
	require.NotContains(t, stdout, "zero=1", "FSDP has none")
	require.Contains(t, stdout, "in the files 3 lines differ\n--- finetune.sh\n+++ finetune.sh\n")
	require.Contains(t, stdout, "-  --block_size 4096 --bf16 --gradient_checkpointing --learning_rate 2e-5\n")
	require.Contains(t, stdout, "-  fsdp_reshard_after_forward: true\n+  fsdp_reshard_after_forward: false\n")
	patch, err := os.ReadFile("b.patch")
	require.NoError(t, err)
	require.Contains(t, stdout, string(patch))
	_, stderr, code = psim(t, "psim explain ds.json config.json --devices 16 --emit deepspeed -o better.json"+machine)
	require.Zero(t, code, stderr)
	better, err := os.ReadFile("better.json")
	require.NoError(t, err)
	require.Regexp(t, `"stage": [12]`, string(better))
	require.NoError(t, os.Mkdir("c.patch", 0o700))
	for flags, want := range map[string]string{
		"--emit accelerate -o c":    "--out c.patch: is a folder",
		"--emit accelerate -o no/x": "there is no folder no", "--emit accelerate -o " + strings.Repeat("x", 300): "cannot be written: ",
		"--emit accelerate -o " + strings.Repeat("x", 252): ".patch: cannot be written: ", "--emit accelerate -o finetune.sh --overwrite": "is one of the inputs",
		"--emit megatron -o d": "--emit megatron: finetune.sh is not of that program; --emit accelerate writes it", "-o d": "--emit says how it is written",
	} {
		_, stderr, code := psim(t, "psim explain finetune.sh accelerate.yaml config.json "+flags+machine)
		require.Equal(t, 2, code, flags)
		require.Contains(t, stderr, want)
	}
	require.NoFileExists(t, "d")
	_, stderr, code = psim(t, "psim explain llama3-8b --devices 8 --emit accelerate -o d"+machine)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--emit accelerate: changes files of transformers' Trainer, and none is named")
}

// TestExported: one file may go to stdout, several may not, and a changed setting says what it does to the step.
func TestExported(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout, stderr, code := psim(t, "psim export megatron llama3-70b -o -")
	require.Zero(t, code, stderr)
	require.True(t, strings.HasPrefix(stdout, "#!/bin/bash\n"), stdout)
	require.Regexp(t, `psim: with this the predicted step is 1 min [\d.]+ s, and was 1 min [\d.]+ s: [+−]?[\d.]+ %\n`, stderr)
	stdout, stderr, code = psim(t, "psim export megatron llama3-70b --set schedule.partition=blocks -o -")
	require.Zero(t, code, stderr)
	require.NotEmpty(t, stdout)
	require.Empty(t, stderr)
	stdout, stderr, code = psim(t, "psim export torchtitan llama3-8b --device h100-80gb-sxm --devices 8 -o -")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "--parallelism.data_parallel_shard_degree 8")
	for command, want := range map[string]string{
		"psim export accelerate llama3-8b -o -": "--out -: args.yaml and accelerate.yaml are two files, which stdout",
		"psim export torch exec -o -":           "--out -: train.py goes to a folder",
	} {
		_, stderr, code := psim(t, command)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, want)
	}
	made, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, made)
}

// TestShowNetwork: the plan of a config.json is a start for a file of one's own; other files are not shown.
func TestShowNetwork(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("tiny", 0o700))
	require.NoError(t, os.WriteFile("tiny/config.json", []byte(`{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
		"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 32}`), 0o600))
	for _, name := range []string{"tiny/config.json", "tiny"} {
		stdout, stderr, code := psim(t, "psim show "+name)
		require.Zero(t, code, stderr)
		require.NoError(t, os.WriteFile("my.toml", []byte(stdout), 0o600))
		stdout, stderr, code = psim(t, "psim run my.toml --device h100-80gb-sxm --json")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, `"step_time_s"`)
	}
	_, stderr, code := psim(t, "psim show my.toml")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "my.toml: is a file of yours, which psim run reads as it is")
}

// TestHybrid: sharding in groups of replicas is called so, and one group of all of them is FSDP.
func TestHybrid(t *testing.T) {
	t.Chdir(t.TempDir())
	const command = "psim run gpt2 --device a100-80gb-sxm --devices 8 --set parallel.zero=3 --set parallel.zero_group="
	for group, want := range map[string]string{
		"4": "gpt2 (HSDP): 1 stage, 1 microbatch, 8 data-parallel replicas, sharded in groups of 4, predicted\n",
		"8": "gpt2 (FSDP): 1 stage, 1 microbatch, 8 data-parallel replicas, predicted\n",
	} {
		stdout, stderr, code := psim(t, command+group+" --out "+group)
		require.Zero(t, code, stderr)
		require.True(t, strings.HasPrefix(stdout, want), stdout)
		picture, err := os.ReadFile(group + "/timeline.svg")
		require.NoError(t, err)
		require.Equal(t, group == "4", strings.Contains(string(picture), "hybrid sharding (HSDP)"))
		data, err := os.ReadFile(group + "/result.json")
		require.NoError(t, err)
		require.Equal(t, group == "4", strings.Contains(string(data), `"zero_group": 4,
  "stages"`))
	}
}

// TestMisread: numbers of a log that do not go together are in the answer, and --quiet does not hide them.
func TestMisread(t *testing.T) {
	log, err := os.ReadFile("../../../launch/testdata/train.log")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	text := strings.Replace(string(log), " 14336\n", " 11008\n", 1)
	require.NoError(t, os.WriteFile("train.log", []byte(text), 0o600))
	const machine = " --quiet --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr"
	const want = "TFLOP/s a device, and its arguments give "
	stdout, stderr, code := psim(t, "psim explain train.log"+machine)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, want)
	stdout, stderr, code = psim(t, "psim explain train.log --json"+machine)
	require.Zero(t, code, stderr)
	var h judged.Judgment
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.Len(t, h.Misread, 1)
	_, stderr, code = psim(t, "psim import train.log"+machine)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, want)
	require.NoError(t, os.WriteFile("train.log", log, 0o600))
	_, stderr, code = psim(t, "psim import train.log"+machine)
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
}

// TestExplain: the first line judges, for a log, a script with its log, and a configuration.
func TestExplain(t *testing.T) {
	folder, err := filepath.Abs("../../../launch/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	const machine = " --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr"
	for command, want := range map[string]string{
		"psim explain " + folder + "/train.log" + machine:                                                "slow: 5.20 s, ",
		"psim explain " + folder + "/train.log --measured 4s" + machine:                                  "nothing is wrong: 4.00 s, ",
		"psim explain " + folder + "/train.log --measured 9.8s" + machine:                                "slow: 9.80 s, ",
		"psim explain " + folder + "/train.log --measured 1s" + machine:                                  "cannot be: 1.00 s would be ",
		"psim explain " + folder + "/run.sh " + folder + "/train.log " + folder + "/common.sh" + machine: "slow: 5.20 s, ",
		"psim explain llama3-70b --log " + folder + "/train.log":                                         "no verdict: the log is of another network: it trains ",
		"psim explain gpipe --measured 1s":                                                               "slow: 1.00 s, ",
	} {
		stdout, stderr, code := psim(t, command)
		require.Zero(t, code, stderr)
		require.True(t, strings.HasPrefix(stdout, want), "%s: %s", command, stdout)
	}
	stdout, stderr, code := psim(t, "psim explain gpipe --measured 1s --json")
	require.Zero(t, code, stderr)
	var h judged.Judgment
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.Equal(t, judged.Slow, h.Verdict)

	for command, want := range map[string]string{
		"psim explain":                                           "explain takes a log, a launch script or a CONFIG, not nothing",
		"psim explain gpipe":                                     "no measured step is known: name the log of the run (--log), a trace of PyTorch's profiler (--profile), or --measured 12.3s",
		"psim explain gpipe --measured 12":                       "--measured 12: must be a time above 0 with its unit, such as 12.3s",
		"psim explain gpipe --measured -1s":                      "--measured -1s: must be a time above 0",
		"psim explain gpipe ddp --measured 1s":                   "gpipe: is not a log or a script of Megatron-LM",
		"psim explain gpipe --log nowhere":                       "--log nowhere: no such file or directory",
		"psim explain gpipe --log " + folder + "/run.sh":         "has no line that says how long an iteration took",
		"psim explain " + folder + "/train.log":                  "--device is missing",
		"psim explain " + folder + "/train.log --network ib-ndr": "--device is missing",
	} {
		stdout, stderr, code := psim(t, command)
		require.Equal(t, 2, code, command)
		require.Empty(t, stdout, command)
		require.Contains(t, stderr, want, command)
	}
}

// TestBetter: the fastest plan is a patch of the user's script, and --emit writes it; what is not about the plan stays.
func TestBetter(t *testing.T) {
	folder, err := filepath.Abs("../../../launch/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	const machine = " --device h100-80gb-sxm --devices-per-node 8 --network ib-hdr"
	read := func(name string) string {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(data)
	}
	whole := strings.Replace(read(folder+"/run.sh"), "source common.sh\n", read(folder+"/common.sh"), 1)
	require.NoError(t, os.WriteFile("run.sh", []byte(whole), 0o644))
	stdout, stderr, code := psim(t, "psim explain run.sh --log "+folder+"/train.log --emit megatron -o better.sh --json"+machine)
	require.Zero(t, code, stderr)
	var h judged.Judgment
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.Equal(t, "better.sh", h.Written)
	require.Contains(t, h.Patch, "--- run.sh\n+++ run.sh\n@@ -")
	require.InEpsilon(t, h.Measured*h.Better.StepTime/h.Predicted, h.BetterMeasured, 1e-12)
	before, after := strings.Split(whole, "\n"), strings.Split(read("better.sh"), "\n")
	require.Len(t, after, len(before))
	changed := 0
	for i := range before {
		if before[i] != after[i] {
			changed++
		}
	}
	require.Equal(t, h.PatchedLines, changed)

	// The changed script is the better plan, and no other is much better.
	stdout, stderr, code = psim(t, "psim explain better.sh --measured 5s --json"+machine)
	require.Zero(t, code, stderr)
	predicted := h.Better.StepTime
	h = judged.Judgment{}
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.InEpsilon(t, predicted, h.Predicted, 1e-9)
	require.Nil(t, h.Better)

	stdout, stderr, code = psim(t, "psim explain better.sh --measured 5s --emit megatron -o none.sh"+machine)
	require.Equal(t, 1, code)
	require.Contains(t, stdout, "no plan that this program offers for these devices is faster by more than 1 %")
	require.Contains(t, stderr, "--emit: there is no better plan to write")
	require.NoFileExists(t, "none.sh")
	_, stderr, code = psim(t, "psim explain "+folder+"/train.log --emit megatron -o alone.sh"+strings.Replace(machine, "ib-hdr", "roce-100", 1))
	require.Zero(t, code, stderr)
	require.Contains(t, read("alone.sh"), "--micro-batch-size 1")
	stdout, stderr, code = psim(t, "psim explain llama3-70b --measured 120s --json")
	require.Zero(t, code, stderr)
	h = judged.Judgment{}
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.NotNil(t, h.Better)
	require.Empty(t, h.Patch+h.Unpatched, "no script was named")
	require.NoError(t, os.WriteFile("titan.toml", []byte("[job]\n[training]\nlocal_batch_size = 1\n[model]\nflavor = \"70B\"\n"+
		"[parallelism]\npipeline_parallel_degree = 8\npipeline_parallel_schedule = \"GPipe\"\n"), 0o644))
	stdout, stderr, code = psim(t, "psim explain titan.toml --measured 9s --json --devices 64 --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr")
	require.Zero(t, code, stderr)
	h = judged.Judgment{}
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.Empty(t, h.Patch+h.Unpatched, "the script is not one of Megatron-LM")
	for flags, want := range map[string]string{
		" --emit torch -o x": "--emit torch: unknown format", " --emit megatron": "--out is missing", " -o x": "--out is for the better plan",
	} {
		_, stderr, code := psim(t, "psim explain gpipe --measured 1s"+flags)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, want)
	}
}

// TestExplainLogs: the step of a log of any program is held against a configuration, with its memory.
func TestExplainLogs(t *testing.T) {
	folder, err := filepath.Abs("../../../launch/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("titan.toml", []byte("[job]\n[training]\nlocal_batch_size = 4\nseq_len = 2048\n[model]\nflavor = \"8B\"\n[parallelism]\n"), 0o644))
	require.NoError(t, os.WriteFile("ds.json", []byte(`{"train_batch_size": 32, "gradient_accumulation_steps": 2, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}`), 0o644))
	for command, want := range map[string]struct {
		step                float64
		allocated, reserved float64 // GiB
		says                string
	}{
		"titan.toml --log " + folder + "/torchtitan.log --device h100-80gb-sxm --devices 1": {
			1.121, 0, 9.46, "the log prints 7309 tokens/s a device (tps), and its settings give as much (7307.8)",
		},
		"llama3-8b --device h100-80gb-sxm --set batch.global=8 --set batch.micro=4 --set parallel.data=2 --set model.sequence_length=4096 --log " + folder + "/torchtitan.log": {
			1.121, 0, 9.46, "and batch, sequence length and devices give 14616: one of them was misread",
		},
		"ds.json " + folder + "/network.json --log " + folder + "/deepspeed.log --set model.sequence_length=128 --device h100-80gb-sxm": {
			32 / 155.1244, 2.62, 0, "by the times of its lines a step takes 209 ms: 2.71 ms go by between steps",
		},
		"llama3-8b --device h100-80gb-sxm --set batch.global=64 --set batch.micro=4 --log " + folder + "/deepspeed.log": {
			64 / 155.1244, 2.62, 0, "and no longer: the batch was misread",
		},
		folder + "/network.json " + folder + "/trainer.log --set model.sequence_length=128 --device cpu-core": {
			0.1167, 0, 0, "and its settings give as much (64.085)",
		},
	} {
		stdout, stderr, code := psim(t, "psim explain --json "+command)
		require.Zero(t, code, "%s: %s", command, stderr)
		require.Contains(t, stderr, want.says, command)
		var h judged.Judgment
		require.NoError(t, json.Unmarshal([]byte(stdout), &h))
		require.InEpsilon(t, want.step, h.Measured, 1e-3, command)
		if want.allocated+want.reserved == 0 {
			require.Nil(t, h.Memory)
			continue
		}
		require.InDelta(t, want.allocated*(1<<30), h.Memory.Allocated, 1)
		require.InDelta(t, want.reserved*(1<<30), h.Memory.Reserved, 1)
		require.Positive(t, h.Memory.Tensors)
		require.GreaterOrEqual(t, h.Memory.Peak, h.Memory.Tensors)
	}
}

// TestExplainOtherLog: a log of another network, batch or length of samples gets no verdict but the reason, and another
// plan of the same work is named below the verdict.
func TestExplainOtherLog(t *testing.T) {
	t.Chdir(t.TempDir())
	const lines = "[rank0]:[titan] 2026-05-18 16:04:%02d,000 - root - INFO - step: %2d  loss:  3.2  grad_norm:  0.8  " +
		"memory: 70.25GiB(88.67%%)  tps: 4,096  tflops: 400.00  mfu: 40.2%%\n"
	log := func(name, head string, batch, tokens int) {
		text := head + fmt.Sprintf("[rank0]:[titan] - INFO - Trainer is initialized with local batch size 1, global batch size %d, "+
			"gradient accumulation steps 1, sequence length %d, total steps 40 (warmup 2).\n", batch, tokens)
		for n := 1; n <= 5; n++ {
			text += fmt.Sprintf(lines, 2*n, n)
		}
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	const dump = "[rank0]:[titan] - INFO - Running with args: {'model': {'name': 'llama3', 'flavor': '70B'}, 'training': {'seq_len': 4096, " +
		"'local_batch_size': 1, 'global_batch_size': 8}, 'parallelism': {'tensor_parallel_degree': 8, 'data_parallel_shard_degree': -1}, 'activation_checkpoint': {'mode': 'none'}}\n"
	log("size.log", "[rank0]:[titan] - INFO - Model llama3 70B size: 70,553,706,496 total parameters\n", 8, 8192)
	log("dump.log", "[rank0]:[titan] - INFO - Building 2-D device mesh with ['dp_shard', 'tp'], [8, 8]\n"+dump, 8, 4096)
	log("batch.log", "", 64, 8192)
	log("mesh.log", "[rank0]:[titan] - INFO - Building 1-D device mesh with ['dp_shard'], [16]\n"+
		"[rank0]:[titan] - INFO - Model llama3 8B size: 8,030,261,248 total parameters\n", 8, 8192)
	const config = "psim explain llama3-8b --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr --set batch.global=8 --set batch.micro=1 --set parallel.data=8 --set parallel.zero=3 --set model.sequence_length=8192"
	for name, want := range map[string][]string{
		"size.log": {"no verdict: the log is of another network: it trains 70,553,706,496 parameters, and the configuration 8,03"},
		"dump.log": {
			"no verdict: the log is of another network: it trains 70,", "; the log's samples have 4096 tokens, and the configuration says 8192: --set model.sequence_length=4096",
			"the log shows 64 devices, and the configuration has 8", "the log says parallel.tensor = 8, and the configuration 1",
		},
		"batch.log": {"no verdict: the log's steps are of 64 samples, and the configuration says 8: --set batch.global=64 predicts these\n2.00 s measured, "},
	} {
		stdout, stderr, code := psim(t, config+" --log "+name)
		require.Zero(t, code, stderr)
		for _, text := range want {
			require.Contains(t, stdout, text, name)
		}
		require.True(t, strings.HasPrefix(stdout, "no verdict: "), name)
		require.NotContains(t, stdout, "what would explain it", name)
	}
	stdout, stderr, code := psim(t, config+" --log mesh.log")
	require.Zero(t, code, stderr)
	first, rest, _ := strings.Cut(stdout, "\n")
	require.NotContains(t, first, "no verdict")
	require.True(t, strings.HasPrefix(rest, "the log shows 16 devices, and the configuration has 8"), stdout)

	_, stderr, code = psim(t, strings.Replace(config, "explain", "run", 1)+" --out plan")
	require.Zero(t, code, stderr)
	stdout, stderr, code = psim(t, "psim compare plan dump.log")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "the log is of another network")
	require.Contains(t, stdout, "the network has 8,03")
	require.Contains(t, stdout, "sequences have 8,192 tokens in A and 4,096 in B")
}

// TestPatchable: files that patch(1) would leave as they are get no patch.
func TestPatchable(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.sh", nil, 0o600))
	require.NoError(t, os.Symlink("a.sh", "link.sh"))
	require.NoError(t, patchable([]launch.Input{{Label: "a.sh"}, {Label: "b c.sh"}}))
	for name, want := range map[string]string{
		"../a.sh": "only files of the folder", "/a.sh": "only files of the folder", "a\tb.sh": "rename the file", "link.sh": "symbolic link",
	} {
		require.ErrorContains(t, patchable([]launch.Input{{Label: "a.sh"}, {Label: name}}), want)
	}
	f := explainFlags{}
	for _, step := range []float64{1e-320, 1e300} {
		_, err := f.step(&launch.LoggedSteps{StepTime: step})
		require.ErrorContains(t, err, "no step is so short or so long")
	}
}
