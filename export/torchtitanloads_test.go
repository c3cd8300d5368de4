package export_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/export"
)

// titanPlans are changes of a plan of Llama 3 8B on eight devices, with what torchtitan is to understand of each.
var titanPlans = []struct {
	sets string
	want map[string]any
}{
	{"", map[string]any{"shard": 8.0, "replicate": 1.0, "reshard": "always", "tensor": 1.0, "global": 16.0, "local": 1.0,
		"length": 4096.0, "bits": "bfloat16", "sums": "float32", "graphs": false, "compile": true, "again": "NoneType"}},
	{"parallel.zero=2", map[string]any{"shard": 8.0, "reshard": "never"}},
	{"parallel.zero=0", map[string]any{"shard": 1.0, "replicate": 8.0}},
	{"parallel.zero_group=4", map[string]any{"shard": 4.0, "replicate": 2.0}},
	{"parallel.data=4 parallel.tensor=2 parallel.sequence=true", map[string]any{"shard": 4.0, "tensor": 2.0}},
	{"parallel.data=4 parallel.context=2 parallel.context_method=all-gather", map[string]any{"context": 2.0}},
	{"parallel.data=4 schedule.name=1f1b schedule.stages=2 parallel.sum_once=true",
		map[string]any{"stages": 2.0, "schedule": "1F1B", "micro": 1.0, "local": 4.0, "global": 16.0}},
	{"parallel.data=4 schedule.name=zbv schedule.stages=2 schedule.virtual_stages=2 parallel.sum_once=true",
		map[string]any{"stages": 2.0, "schedule": "ZBVZeroBubble"}},
	{"parallel.data=4 schedule.name=interleaved-1f1b schedule.stages=2 schedule.virtual_stages=2 parallel.sum_once=true",
		map[string]any{"stages": 2.0, "schedule": "Interleaved1F1B"}},
	{"train.recompute=full", map[string]any{"again": "FullAC.Config"}},
	{"train.recompute=selective", map[string]any{"again": "SelectiveAC.Config"}},
	{"model.kernels=eager", map[string]any{"compile": false}},
	{"model.preset=qwen3-30b-a3b parallel.expert=2", map[string]any{"shard": 8.0, "experts": 2.0}},
}

// TestTorchtitanLoads: torchtitan's own reader takes what was written, and understands the same (make
// peers-torchtitan). Bash runs the script, with a torchrun that only prints its arguments.
func TestTorchtitanLoads(t *testing.T) {
	python := os.Getenv("PSIM_TORCHTITAN")
	if python == "" {
		t.Skip("PSIM_TORCHTITAN names no Python with torchtitan: make peers-torchtitan")
	}
	folder := t.TempDir()
	torchrun := []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "torchrun"), torchrun, 0o755))
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	var names []string
	for _, plan := range titanPlans {
		names = append(names, titanWords(t, plan.sets))
	}
	out, err := exec.Command(python, append([]string{"../tools/peers/torchtitan_config.py"}, names...)...).Output()
	require.NoError(t, err, "%s", out)
	lines := bufio.NewScanner(bytes.NewReader(out))
	for _, plan := range titanPlans {
		require.True(t, lines.Scan(), plan.sets)
		var understood map[string]any
		require.NoError(t, json.Unmarshal(lines.Bytes(), &understood), "%s", lines.Text())
		for key, value := range plan.want {
			require.Equal(t, value, understood[key], "%s: %s", plan.sets, key)
		}
	}
}

// titanWords writes the arguments of torchtitan for a plan into a file, a word a line.
func titanWords(t *testing.T, sets string) (name string) {
	c, err := configs.Parse("plan.toml", []byte("[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama3-8b\"\n"+
		"sequence_length = 4096\nloss = \"fused\"\n[batch]\nglobal = 16\nmicro = 1\n[parallel]\ndata = 8\nzero = 3\n"+
		"[train]\nstack = \"torchtitan\"\nprecision = \"bf16\"\n[machine]\ndevice = \"h100-80gb-sxm\"\n"))
	require.NoError(t, err)
	c, err = c.With(strings.Fields(sets)...)
	require.NoError(t, err, sets)
	var script bytes.Buffer
	_, err = export.WriteTorchtitan(t.Context(), &script, c)
	require.NoError(t, err, sets)
	bash := exec.Command("bash")
	bash.Stdin = &script
	out, err := bash.Output()
	require.NoError(t, err, sets)
	_, words, started := bytes.Cut(out, []byte("torchtitan.train\n"))
	require.True(t, started, "%s: %s", sets, out)
	name = filepath.Join(t.TempDir(), "words")
	require.NoError(t, os.WriteFile(name, words, 0o666))
	return name
}
