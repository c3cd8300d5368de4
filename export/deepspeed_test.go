package export_test

import (
	"bytes"
	"encoding/json"
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

// TestDeepSpeedIsImported: a JSON that was written is read as the plan that it was written for, with what its script
// decides as in the plan.
func TestDeepSpeedIsImported(t *testing.T) {
	written := map[any]int{}
	rapid.Check(t, func(t *rapid.T) {
		data, micro, zero := pick(t, "data", 1, 2, 8), pick(t, "micro", 1, 2), pick(t, "zero", 0, 1, 2, 3)
		d := drawn{
			"model.preset": "llama3-8b", "model.sequence_length": 2048, "schedule.name": "ddp", "parallel.data": data, "parallel.zero": zero,
			"batch.micro": micro, "batch.global": micro * data * pick(t, "rounds", 1, 3), "machine.device": "h100-80gb-sxm",
			"train.precision": pick(t, "precision", "bf16", "fp16", "fp32"), "train.optimizer": pick(t, "optimizer", "adamw", "lion", "muon"),
			"train.clip": rapid.Bool().Draw(t, "clip"), "train.recompute": pick(t, "recompute", "none", "full"),
		}
		if zero > 0 {
			d["parallel.overlap"] = rapid.Bool().Draw(t, "overlap")
		}
		if zero == 1 || zero == 2 {
			d["parallel.bucket"] = "200000000 gradients"
			d["parallel.reduce_scatter"] = rapid.Bool().Draw(t, "scatter")
		}
		if d["train.precision"] == "bf16" {
			d["train.gradients"] = pick(t, "gradients", "fp32", "bf16")
			d["train.moments"] = pick(t, "moments", "fp32", "bf16")
		}
		if rapid.Bool().Draw(t, "tensor") {
			d["parallel.tensor"] = 2
		}
		c, err := configs.Parse("plan.toml", d.text())
		if err != nil {
			t.Skip(err)
		}
		if _, err := c.BuildFor(t.Context(), configs.BuildOptions{Folded: true, Brief: true}); err != nil {
			t.Skip(err)
		}
		var text bytes.Buffer
		_, err = export.WriteDeepSpeed(t.Context(), &text, c)
		require.NoError(t, err, "%s", d.text())
		devices := data
		if d["parallel.tensor"] != nil {
			devices *= 2
		}
		read, err := launch.Read([]launch.Input{
			{Label: "ds.json", Data: text.Bytes()}, {Label: "config.json", Data: []byte(`{"model_type": "llama"}`)},
		}, launch.Options{Devices: devices})
		require.NoError(t, err)
		require.Zero(t, read.Unknown, "%v", read.Ignored)
		object, config := c.Object(), read.Config
		config["machine"], config["model"] = object["machine"], object["model"]
		train := map[string]any{"recompute": d["train.recompute"]}
		maps.Copy(train, config["train"].(map[string]any))
		config["train"] = train
		alike(t, c, parsed(t, config), true)
		written[zero]++
	})
	require.Len(t, written, 4)
}

// TestDeepSpeedRefuses: a key that DeepSpeed's JSON has no key for is named.
func TestDeepSpeedRefuses(t *testing.T) {
	for set, want := range map[string]string{
		"schedule.stages=2 schedule.name=1f1b": "schedule.stages: export deepspeed: DeepSpeed's configuration has no key for it",
		"train.precision=fp8":                  "train.precision: export deepspeed: DeepSpeed's configuration has fp32, fp16 and bf16",
		"train.optimizer=adafactor":            "train.optimizer: export deepspeed: DeepSpeed's are adamw",
		"parallel.bucket=25MB":                 "parallel.bucket: export deepspeed: DeepSpeed counts gradients",
		"parallel.gather_updated=owner":        "parallel.gather_updated: export deepspeed: DeepSpeed has",
	} {
		c, err := configs.Parse("plan.toml", []byte("[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama3-8b\"\n[batch]\nglobal = 16\nmicro = 1\n[parallel]\n"+
			"data = 8\nzero = 2\n[train]\nprecision = \"bf16\"\n[machine]\ndevice = \"h100-80gb-sxm\"\n"))
		require.NoError(t, err)
		if c, err = c.With(strings.Fields(set)...); err == nil {
			_, err = export.WriteDeepSpeed(t.Context(), &bytes.Buffer{}, c)
		}
		require.ErrorContains(t, err, want, set)
	}
}

// TestDeepSpeedLoads: DeepSpeed's own reader understands what was written (make peers-deepspeed).
func TestDeepSpeedLoads(t *testing.T) {
	python := os.Getenv("PSIM_DEEPSPEED")
	if python == "" {
		t.Skip("PSIM_DEEPSPEED names no Python with DeepSpeed: make peers-deepspeed")
	}
	for set, want := range map[string]map[string]any{
		"parallel.zero=0": {"zero": 0.0}, "parallel.zero=3 parallel.overlap=false": {"zero": 3.0, "overlap": false},
		"parallel.zero=1 parallel.reduce_scatter=false": {"zero": 1.0, "scatter": false, "overlap": true},
		"parallel.bucket=200000000_gradients":           {"zero": 2.0, "bucket": 2e8},
		"train.precision=fp16":                          {"fp16": true, "bf16": false}, "train.gradients=fp32": {"sums": "fp32"},
		"train.clip=true": {"clip": 1.0}, "train.optimizer=lion": {"optimizer": "lion"}, "batch.micro=2": {"micro": 2.0, "rounds": 1.0},
		"parallel.data=4 parallel.tensor=2": {"tensor": 2.0, "rounds": 4.0},
	} {
		c, err := configs.Parse("plan.toml", []byte("[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama3-8b\"\n[batch]\nglobal = 16\nmicro = 1\n[parallel]\n"+
			"data = 8\nzero = 2\n[train]\nprecision = \"bf16\"\n[machine]\ndevice = \"h100-80gb-sxm\"\n"))
		require.NoError(t, err)
		var sets []string
		for word := range strings.FieldsSeq(set) {
			sets = append(sets, strings.Replace(word, "_gradients", " gradients", 1))
		}
		c, err = c.With(sets...)
		require.NoError(t, err, set)
		var text bytes.Buffer
		_, err = export.WriteDeepSpeed(t.Context(), &text, c)
		require.NoError(t, err, set)
		name := filepath.Join(t.TempDir(), "ds.json")
		require.NoError(t, os.WriteFile(name, text.Bytes(), 0o666))
		out, err := exec.Command(python, "../tools/peers/deepspeed_config.py", name).Output()
		require.NoError(t, err, "%s: %s", set, text.String())
		var understood map[string]any
		require.NoError(t, json.Unmarshal(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:], &understood), "%s", out)
		require.Equal(t, 16.0, understood["batch"])
		for key, value := range want {
			require.Equal(t, value, understood[key], "%s: %s", set, key)
		}
	}
}
