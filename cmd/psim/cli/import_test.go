package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch"
)

// TestImport: a log becomes a file that psim run reads as it is, and what is missing is asked for.
func TestImport(t *testing.T) {
	log, err := filepath.Abs("../../../launch/testdata/train.log")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	stdout, stderr, code := psim(t, "psim import "+log+" --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr -o mine.toml")
	require.Zero(t, code, stderr)
	require.Equal(t, "wrote mine.toml; predict its step with\n  psim run mine.toml\n", stdout)
	require.Contains(t, stderr, "a step of 512 samples takes 5.20 s, the median of 7 lines")
	require.Contains(t, stderr, "unknown to psim, and left aside: my_own_flag")
	require.NotContains(t, stderr, "missing")
	_, stderr, code = psim(t, "psim run mine.toml --json --out -")
	require.Zero(t, code, stderr)

	stdout, stderr, code = psim(t, "psim import "+log+" --json")
	require.Zero(t, code, stderr)
	var i launch.Import
	require.NoError(t, json.Unmarshal([]byte(stdout), &i))
	require.Equal(t, "machine.device", i.Missing[len(i.Missing)-1].Key)
	require.InDelta(t, 5.2, i.Measured.StepTime, 1e-9)

	stdout, stderr, code = psim(t, "psim import "+log+" --set model.vocab=32000 --set batch.micro=2 --quiet")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "vocab = 32000")
	require.Contains(t, stdout, "micro = 2")
}

// TestImportErrors: each has one line, exit code 2, and nothing is written.
func TestImportErrors(t *testing.T) {
	log, err := filepath.Abs("../../../launch/testdata/train.log")
	require.NoError(t, err)
	titan, trainer := strings.Replace(log, "train.log", "torchtitan.log", 1), strings.Replace(log, "train.log", "trainer.log", 1)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("empty.sh", nil, 0o666))
	require.NoError(t, os.WriteFile("losses.log", []byte("{'loss': '6.8', 'epoch': '4.1'}\n{'loss': '6.7', 'epoch': '5'}\n"), 0o666))
	require.NoError(t, os.WriteFile("ds.log", []byte("[2026-11-28 16:03:07,710] [INFO] [config.py:674:print] DeepSpeedEngine configuration:\n"), 0o666))
	require.NoError(t, os.WriteFile("config.json", []byte(`{"model_type": "gpt2"}`), 0o666))
	for command, want := range map[string]string{
		"psim import":           "import takes a log, a launch script, or both, not nothing",
		"psim import /dev/null": "/dev/null: is not a regular file",
		"psim import " + log + " -o " + log + " --overwrite": "is one of the inputs; name another file",
		"psim import nowhere.log":                            "nowhere.log: no such file or directory",
		"psim import empty.sh":                               "empty.sh: starts no training that psim knows",
		"psim import " + log + " --devices 128":              "--devices 128: " + log + " ran on 64; leave --devices out",
		"psim import " + log + " --devices 0":                "--devices 0: must be at least 1",
		"psim import " + log + " --network ib-ndr":           "--device is missing",
		"psim import " + log + " --set vocab":                "--set vocab: must be KEY=VALUE with a dotted key",
		"psim import " + log + " --set model.x=1":            "model.x",
		"psim import " + log + " --device b9000":             "b9000",
		"psim import " + log + " -o no/where.toml":           "there is no folder no",
		"psim import " + log + " " + log:                     "is a second log",
		"psim import " + titan:                               titan + ": prints no arguments; name its script or its TOML (torchtitan prints its configuration with job.print_config) as well",
		"psim import losses.log config.json":                 "losses.log: has no line that says how long a step took: the Trainer's lines of losses have no times",
		"psim explain gpipe --log losses.log": "--log losses.log: has no line that says how long an iteration took; the Trainer's lines of losses have no times: its bar of " +
			"progress has (disable_tqdm=False), as has its summary at the end (train_runtime)",
		"psim explain gpipe --log ds.log":             "set steps_per_print to 10 in its JSON",
		"psim import " + trainer:                      trainer + ": does not say what is trained; name the network's config.json as well",
		"psim import " + log + " --set batch.micro=3": "schedule.microbatches = 22",
	} {
		stdout, stderr, code := psim(t, command)
		require.Equal(t, 2, code, command)
		require.Empty(t, stdout, command)
		require.Contains(t, stderr, want, command)
	}
	list, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, list, 4)
}

// A script that psim writes is one that it reads, and none is left where a key is refused.
func TestExportMegatron(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout, stderr, code := psim(t, "psim export megatron llama3-70b -o train.sh")
	require.Zero(t, code, stderr)
	require.Equal(t, "wrote train.sh; read it back with\n  psim import train.sh --device h100-80gb-sxm\n", stdout)
	stdout, stderr, code = psim(t, "psim import train.sh --json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `"unknown": 0`)
	require.NoError(t, os.WriteFile("mine.sh", []byte("#!/bin/bash\n"), 0o644))
	_, stderr, code = psim(t, "psim export megatron llama3-70b -o mine.sh")
	require.Equal(t, 2, code, "it is a file of the user's: %s", stderr)
	_, stderr, code = psim(t, "psim export megatron llama3-70b --set schedule.name=gpipe -o other.sh")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "schedule.name: export megatron: Megatron-LM has 1f1b")
	require.NoFileExists(t, "other.sh")
	_, stderr, code = psim(t, "psim export megatron llama3-70b --weights -o other.sh")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--weights goes with psim export torch")
}

// TestExportOthers: what psim writes for other programs it reads as psim export says.
func TestExportOthers(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("config.json", []byte(`{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}`), 0o644))
	require.NoError(t, os.Mkdir("mine", 0o755))
	require.NoError(t, os.WriteFile("mine/args.yaml", []byte("bf16: true\n"), 0o644))
	for _, c := range []struct {
		command, stdout, stderr string
	}{
		{
			"psim export accelerate llama3-8b --set parallel.data=8 --set parallel.zero=3 --set machine.device=h100-80gb-sxm -o hf",
			"wrote hf/args.yaml and accelerate.yaml; read them back with\n  psim import hf/args.yaml hf/accelerate.yaml config.json --set model.sequence_length=8192 --device h100-80gb-sxm\n",
			"the network and the length of a sample are your script's",
		},
		{"psim import hf/args.yaml hf/accelerate.yaml config.json --device h100-80gb-sxm", "zero = 3", "trainer as of transformers"},
		{"psim export nemo llama3-70b -o run.yaml", "wrote run.yaml; read it back with\n  psim import run.yaml --devices 64 --device h100-80gb-sxm\n", ""},
		{"psim import run.yaml --devices 64 --device h100-80gb-sxm", "tensor = 8", "megatron-bridge as of"},
		{"psim export nanotron llama3-70b -o n.yaml", "wrote n.yaml; read it back with\n  psim import n.yaml --device h100-80gb-sxm\n", ""},
		{"psim import n.yaml", "stack = \"nanotron\"", "nanotron as of"},
		{"psim export accelerate llama3-8b", "", "--out is missing: name the folder to write args.yaml and accelerate.yaml to, as in -o hf"},
		{"psim export nemo llama3-70b --set schedule.name=gpipe -o none", "", "schedule.name: export nemo: Megatron-LM has 1f1b"},
		{"psim export axolotl llama3-8b -o none", "", `unknown format "axolotl"; psim export writes torch, megatron, torchtitan, deepspeed, accelerate, nemo, nanotron`},
		{"psim export accelerate llama3-8b --weights -o none", "", "--weights goes with psim export torch"},
		{"psim export accelerate llama3-8b --set machine.device=h100-80gb-sxm -o mine", "", "mine"},
	} {
		stdout, stderr, _ := psim(t, c.command)
		require.Contains(t, stdout, c.stdout, "%s: %s", c.command, stderr)
		require.Contains(t, stderr, c.stderr, c.command)
		require.Equal(t, c.stdout == "", stdout == "", c.command)
	}
	require.NoFileExists(t, "none")
}

// TestImportOthers: files of torchtitan, DeepSpeed and the Trainer become configurations that psim predicts, from any folder.
func TestImportOthers(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("sub", 0o755))
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o644)) }
	write("titan.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 8192\nlocal_batch_size = 1\n[parallelism]\n"+
		"pipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Interleaved1F1B\"\n[job]\n")
	write("config.json", `{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}`)
	write("ds.json", `{"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}`)
	write("args.yaml", "per_device_train_batch_size: 2\nbf16: true\ngradient_checkpointing: true\n")
	write("accelerate.yaml", "distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n  fsdp_version: 2\n")
	const machine = " --device h100-80gb-sxm --devices 8 -o sub/"
	for _, command := range []string{
		"psim import titan.toml --set training.local_batch_size=2",
		"psim import titan.toml" + machine + "titan.toml --set batch.global=16",
		"psim import ds.json config.json" + machine + "ds.toml --set model.sequence_length=4096",
		"psim import args.yaml accelerate.yaml config.json" + machine + "hf.toml --set model.sequence_length=4096",
	} {
		_, stderr, code := psim(t, command)
		if strings.Contains(command, "training.") {
			require.Equal(t, 2, code, "no such key of psim's")
			continue
		}
		require.Zero(t, code, "%s: %s", command, stderr)
	}
	for _, name := range []string{"titan", "ds", "hf"} {
		stdout, stderr, code := psim(t, "psim run sub/"+name+".toml --json --out -")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, `"devices": 8`)
	}
	stdout, stderr, code := psim(t, "psim explain ds.json config.json --measured 2s --device h100-80gb-sxm --devices 8 --set model.sequence_length=4096")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "expected")
	require.Contains(t, stderr, "missing: train.recompute")
}
