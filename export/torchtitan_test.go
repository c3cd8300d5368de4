package export_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/configs"
	"psim/export"
)

// drawTitan draws a plan that torchtitan can be told.
func drawTitan(t *rapid.T) drawn {
	d := drawn{
		"model.preset": pick(t, "preset", "llama3-8b", "llama3-8b", "llama3-8b", "llama3-8b", "qwen3-30b-a3b"), "model.sequence_length": pick(t, "length", 2048, 8192),
		"model.loss": "fused", "model.kernels": pick(t, "kernels", "eager", "compiled"), "train.stack": "torchtitan", "train.clip": true,
		"train.precision": "bf16", "train.gradients": "fp32", "train.optimizer": "adamw", "train.moments": pick(t, "moments", "fp32", "bf16"),
		"train.recompute": pick(t, "recompute", "none", "selective", "full"), "batch.micro": pick(t, "micro", 1, 2),
		"machine.device": "h100-80gb-sxm", "machine.devices_per_node": 8, "machine.network": "ib-ndr",
	}
	if d["model.preset"] == "llama3-8b" && rapid.Bool().Draw(t, "narrow") {
		d["train.precision"], d["model.kernels"] = "mxfp8", "compiled"
	}
	data, stages, micro := pick(t, "data", 1, 2, 4), pick(t, "stages", 1, 1, 2, 4), d["batch.micro"].(int)
	d["parallel.data"], d["parallel.zero"] = data, pick(t, "zero", 0, 2, 3)
	if data == 1 {
		d["parallel.zero"] = 0
	}
	if d["parallel.zero"] != 0 && stages > 1 {
		d["parallel.sum_once"] = true
	}
	if d["parallel.zero"] == 3 && data == 4 && rapid.Bool().Draw(t, "in groups") {
		d["parallel.zero_group"] = 2
	}
	if n := pick(t, "tensor", 1, 2, 4); n > 1 {
		d["parallel.tensor"], d["parallel.sequence"] = n, true
		d["parallel.tensor_overlap"] = d["model.kernels"] == "compiled" && rapid.Bool().Draw(t, "async")
	}
	if data > 1 && d["parallel.zero"] != 0 && d["model.preset"] == "llama3-8b" && rapid.Bool().Draw(t, "context") {
		d["parallel.context"], d["parallel.context_method"] = 2, "all-gather"
	}
	if d["model.preset"] == "qwen3-30b-a3b" && data > 1 && d["parallel.zero"] != 0 && rapid.Bool().Draw(t, "expert groups") {
		d["parallel.expert"] = 2
	}
	d["batch.global"] = micro * data * stages * pick(t, "rounds", 1, 2)
	d["schedule.name"] = "ddp"
	if stages > 1 {
		d["schedule.stages"], d["schedule.name"] = stages, pick(t, "order", "1f1b", "gpipe", "interleaved-1f1b", "looped-bfs", "zbv")
		if d["schedule.name"] != "1f1b" && d["schedule.name"] != "gpipe" {
			d["schedule.virtual_stages"] = 2
		}
	}
	return d
}

// TestTorchtitanIsImported: a script that was written is read as the plan that it was written for.
func TestTorchtitanIsImported(t *testing.T) {
	written, sharded, gathering := map[any]int{}, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawTitan(t)
		c, err := configs.Parse("plan.toml", d.text())
		if err != nil {
			t.Skip(err)
		}
		if _, err := c.BuildFor(t.Context(), configs.BuildOptions{Folded: true, Brief: true}); err != nil {
			t.Skip(err)
		}
		var script bytes.Buffer
		followed, err := export.WriteTorchtitan(t.Context(), &script, c)
		require.NoError(t, err, "%s", d.text())
		// With changes torchtitan cuts the network elsewhere.
		alike(t, c, imported(t, script.Bytes()), len(followed.Changes) == 0)
		written[d["schedule.name"]]++
		if stages, _ := d["schedule.stages"].(int); stages > 1 && d["parallel.zero"] == 3 {
			gathering++
		}
		if d["parallel.expert"] != nil && d["parallel.zero"] == 3 {
			sharded++
		}
	})
	require.Positive(t, sharded, "mixtures under ZeRO 3")
	require.Positive(t, gathering, "pipelines under ZeRO 3")
	require.Greater(t, len(written), 3, "%v", written)
}

// TestTorchtitanRefuses: a key that torchtitan has no flag for is named.
func TestTorchtitanRefuses(t *testing.T) {
	for set, want := range map[string]string{
		"parallel.zero=1":            "parallel.zero: export torchtitan: torchtitan has 0, 2",
		"model.preset=llama2-7b":     "model: export torchtitan: torchtitan's registry has no llama2-7b in bf16",
		"train.precision=fp8":        "torchtitan's registry has no llama3-8b in fp8",
		"train.optimizer=lion":       "train.optimizer: export torchtitan: torchtitan's registry has adamw",
		"train.gradients=bf16":       "train.gradients: export torchtitan: torchtitan has fp32 here, not bf16",
		"train.recompute=[\"norm\"]": "train.recompute: export torchtitan: torchtitan knows none, selective and full",
		"model.layers=30":            "model.layers: export torchtitan: torchtitan has 32 here, not 30",
		"model.kernels=te":           "model.kernels: export torchtitan: torchtitan's are eager or compiled",
	} {
		c, err := configs.Parse("plan.toml", []byte("[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama3-8b\"\n[batch]\nglobal = 16\nmicro = 1\n[parallel]\n"+
			"data = 8\nzero = 3\n[train]\nprecision = \"bf16\"\ngradients = \"fp32\"\n[machine]\ndevice = \"h100-80gb-sxm\"\n"))
		require.NoError(t, err)
		if c, err = c.With(set); err == nil {
			_, err = export.WriteTorchtitan(t.Context(), &bytes.Buffer{}, c)
		}
		require.ErrorContains(t, err, want, set)
	}
}
