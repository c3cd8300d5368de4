package configs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/configs/foreign"
	"psim/costmodel/models"
	"psim/results"
)

const tinyLlama = `{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
	"num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 32}`

// A name is looked up as a file, an example and a preset, in this order; a marked one is the preset.
func TestLookUp(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("gpt2", 0o700)) // does not hide the preset
	layers := func(name string) (int, *configs.Config) {
		c, err := configs.Load(name)
		require.NoError(t, err, name)
		m, err := c.ReadModel()
		require.NoError(t, err)
		if m.Preset != "" {
			return -1, c
		}
		return m.Layers, c
	}
	_, c := layers("llama3-70b")
	require.True(t, c.HasPlan())
	require.Equal(t, 64, c.Parallel.Tensor*c.Parallel.Data*c.Schedule.Stages)
	_, c = layers("model:llama3-70b")
	require.False(t, c.HasPlan())
	require.Equal(t, "llama3-70b", c.Model.Preset)
	require.Equal(t, "model:llama3-70b", c.Name())
	_, c = layers("gpt2")
	require.Equal(t, "gpt2", c.Model.Preset)
	require.NoError(t, os.WriteFile("llama3-8b", []byte(tinyLlama), 0o600))
	n, c := layers("llama3-8b")
	require.Equal(t, 2, n)
	require.False(t, c.HasPlan())
	for _, p := range models.Presets() {
		c, err := configs.LoadOn("model:"+p.Name, configs.Target{Device: "a100-80gb-sxm", Devices: 2})
		require.NoError(t, err)
		require.Equal(t, []int{2, 3, 1}, []int{c.Parallel.Data, c.Parallel.Zero, int(c.Batch.Micro)}, p.Name)
		if p.Name != "megatron-1t" { // too deep to build in a test
			run(t, c)
		}
	}
}

// Devices that the settings leave are replicas, and several replicas are sharded, whether settings come
// with the target or are added.
func TestAssumedReplicas(t *testing.T) {
	on := configs.Target{Device: "h100-80gb-sxm", Devices: 8}
	for sets, want := range map[string][3]any{
		"":                                                {8, 3, "ddp"},
		"parallel.tensor=2":                               {4, 3, "ddp"},
		"parallel.tensor=2 parallel.context=4":            {1, 0, "ddp"},
		"parallel.tensor=3":                               {2, 3, "ddp"},
		"parallel.data=16":                                {16, 3, "ddp"},
		"parallel.zero=1":                                 {8, 1, "ddp"},
		"schedule.name=ddp":                               {8, 0, "ddp"},
		"schedule.name=1f1b schedule.stages=4":            {2, 0, "1f1b"},
		"train.stack=megatron-2021":                       {8, 0, "ddp"},
		"train.stack=torchtitan parallel.zero=0":          {8, 0, "ddp"},
		"parallel.data=1 schedule.name=fsdp":              {1, 3, "ddp"},
		"parallel.tensor=8 train.precision=fp32":          {1, 0, "ddp"},
		"parallel.tensor=2 parallel.data=2 batch.micro=2": {2, 3, "ddp"},
	} {
		list := strings.Fields(sets)
		c, err := configs.LoadOn("llama3-8b", on, list...)
		require.NoError(t, err, sets)
		base, err := configs.LoadOn("llama3-8b", on)
		require.NoError(t, err)
		added, err := base.With(list...)
		require.NoError(t, err, sets)
		for _, c := range []*configs.Config{c, added} {
			require.Equal(t, want, [3]any{c.Parallel.Data, c.Parallel.Zero, c.Schedule.Name}, sets)
			require.Equal(t, 8, c.DevicesAsked())
		}
	}
}

// A network's config.json is a configuration, with paths and a name from its folder.
func TestNetworkFile(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("Tiny-Llama", 0o700))
	path := filepath.Join("Tiny-Llama", "config.json")
	require.NoError(t, os.WriteFile(path, []byte("\ufeff"+tinyLlama), 0o600))
	c, err := configs.LoadOn(path, configs.Target{Device: "t4"}, "batch.micro=4")
	require.NoError(t, err)
	require.Equal(t, "Tiny-Llama", c.Name())
	require.Equal(t, "fp16", c.Train.Precision, "a T4 has no rate in bf16")
	experiment, _ := run(t, c)
	require.Equal(t, 5, len(experiment.Network.Layers))
	require.Contains(t, strings.Join(experiment.Warnings, "\n"),
		`config.json names a network and no plan; assumed: schedule.name = "ddp", train.precision = "fp16" (--set changes them)`)
	folder, err := configs.LoadOn("Tiny-Llama", configs.Target{Device: "t4"}, "batch.micro=4")
	require.NoError(t, err)
	require.Equal(t, c.Fingerprint(), folder.Fingerprint(), "its folder stands for it")
	require.Equal(t, "Tiny-Llama", folder.Name())
	before := c.Fingerprint()
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(tinyLlama, "128", "192", 1)), 0o600))
	c, err = configs.LoadOn(path, configs.Target{Device: "t4"}, "batch.micro=4")
	require.NoError(t, err)
	require.NotEqual(t, before, c.Fingerprint())
	_, err = configs.Load(path, "train.precison=fp32")
	require.EqualError(t, err, `train.precison=fp32: unknown key "train.precison"; did you mean precision?`)
	require.NoError(t, os.WriteFile(path, []byte(`{"model_type": "t5"}`), 0o600))
	c, err = configs.LoadOn(path, configs.Target{Device: "t4"})
	require.NoError(t, err)
	_, err = c.Build()
	require.ErrorContains(t, err, `Tiny-Llama/config.json: model_type "t5" is not supported`)
	for pad, want := range map[int]string{2 << 20: "", 9 << 20: "has more than 8388608 bytes; that is too large"} { // labels may be many
		labels := fmt.Sprintf(`{"id2label": %q, `, strings.Repeat("x", pad)) + tinyLlama[1:]
		require.NoError(t, os.WriteFile(path, []byte(labels), 0o600))
		_, err = configs.LoadOn(path, configs.Target{Device: "t4"})
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

// A target is for configurations that name no machine; settings replace what it says.
func TestTarget(t *testing.T) {
	on := configs.Target{Device: "h100-80gb-sxm", Devices: 16, DevicesPerNode: 8, Network: "ib-ndr"}
	c, err := configs.LoadOn("gpt2", on, "machine.device=v100-32gb-sxm", "train.precision=fp32")
	require.NoError(t, err)
	require.Equal(t, "v100-32gb-sxm", c.Machine.Device)
	require.Equal(t, "fp32", c.Train.Precision)
	require.Equal(t, 8, c.Machine.DevicesPerNode)
	for _, c := range []struct {
		on   configs.Target
		name string
		want string
	}{
		{configs.Target{Device: "t4"}, "gpipe", "--device t4: gpipe names a machine of its own; to change it, give --set machine.device=t4"},
		{configs.Target{DevicesPerNode: 4}, "gpipe", "--devices-per-node 4: gpipe names a machine of its own; to change it, give --set machine.devices_per_node=4"},
		{configs.Target{Network: "ib-ndr"}, "gpipe", "--network ib-ndr: gpipe names a machine of its own; to change it, give --set machine.network=ib-ndr"},
		{configs.Target{Device: "t4"}, "course-timeline", "--device t4: machine: the section has no meaning with [times], which gives the times itself and knows no layers; use [model] or remove it"},
	} {
		_, err := configs.LoadOn(c.name, c.on)
		require.EqualError(t, err, c.want)
	}
	c, err = configs.Load("gpt2")
	require.NoError(t, err)
	_, err = c.Build()
	require.EqualError(t, err, `gpt2: machine.device is missing: name one (psim list devices), such as --device h100-80gb-sxm, `+
		`or give [machine.compute] flops = "10TFLOP/s", and for several devices [machine] link`)
}

// Every choice of every key is accepted for it, and all catalogs are offered.
func TestChoices(t *testing.T) {
	keys := configs.Keys("=")
	require.Greater(t, len(keys), 100)
	chosen := map[string][]string{}
	for _, key := range keys {
		key = strings.TrimSuffix(key, "=")
		chosen[key] = configs.Choices(key)
		for _, value := range chosen[key] {
			require.NoError(t, configs.CheckSet(key+"="+value))
		}
	}
	require.Equal(t, []string{"true", "false"}, chosen["parallel.sequence"])
	for key, want := range map[string]string{
		"schedule.name": "zb-h1", "model.preset": "llama3-8b", "machine.device": "t4", "machine.link": "pcie4",
		"machine.network": "ib-ndr", "train.stack": "torchtitan", "train.recompute": "selective", "train.precision": "bf16",
		"machine.file": "modal-a10g-x2",
	} {
		require.True(t, slices.Contains(chosen[key], want), "%s: %v", key, chosen[key])
	}
	require.Empty(t, chosen["schedule.stages"])
}

// The error for the name of a network that psim does not have says in a line what to give instead. Only
// names like those of networks get the hint.
func TestUnknownNetwork(t *testing.T) {
	t.Chdir(t.TempDir())
	const none = ": no such file, and no example or preset of that name"
	const give = "; for another model, give its config.json (psim run path/to/config.json --device NAME)"
	const lists = "; psim list examples and psim list models list the names"
	for name, want := range map[string]string{
		"olmo2":        none + give + lists,
		"olmoe":        none + give + lists,
		"phi-3":        none + give + "; did you mean phi-4?",
		"qwen3-4b":     none + give + "; did you mean qwen3-8b?",
		"mistral-8b":   none + give + "; did you mean mistral-7b?",
		"zero-offload": none + "; the nearest: zero-bubble" + lists,
		"optimal":      none + lists,
		"plans/foo": none + "; the plans are plans/deepseek-v3, plans/gpt-oss-120b, plans/llama3-405b, " +
			"plans/qwen3-235b",
		"model:olmo2":    ": there is no such preset (psim list models)" + give,
		"model:lama3-8b": ": there is no such preset (psim list models); did you mean llama3-8b?",
		"./nosuch.toml":  ": no such file",
	} {
		_, err := configs.Load(name)
		require.EqualError(t, err, name+want)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	c, err := configs.Load("llama3-70b", "model.preset=olmo2-7b")
	require.NoError(t, err)
	_, err = c.Build()
	require.EqualError(t, err, `model.preset=olmo2-7b: model.preset = "olmo2-7b": there is no such preset `+
		`(psim list models); for another model, give file = "path/to/config.json" instead`)
}

// TestResultsHoldConfigurations: the result of a run stands for its configuration, asks for no default, and a wrong value
// in it is an error with its key.
func TestResultsHoldConfigurations(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(object map[string]any) {
		data, err := json.Marshal(map[string]any{"schema": 1, "kind": "predicted", "name": "mine", "config": object})
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll("run", 0o700))
		require.NoError(t, os.WriteFile("run/result.json", data, 0o600))
	}
	for _, name := range []string{"gpipe", "llama3-70b", "exec", "course-timeline", "mixtral-8x7b"} {
		c, err := configs.LoadOn(name, map[bool]configs.Target{true: {Device: "h100-80gb-sxm"}}[name == "mixtral-8x7b"])
		require.NoError(t, err, name)
		write(c.Object())
		for _, path := range []string{"run", "run/result.json"} {
			again, err := configs.Load(path)
			require.NoError(t, err, name)
			require.Equal(t, c.Object(), again.Object(), name)
			require.Equal(t, "mine", again.Name())
			require.False(t, again.Defined("parallel.gather_unit"), "a default is not asked for")
			require.Equal(t, c.Defined("model"), again.Defined("model"))
		}
		set, err := configs.Load("run", "schedule.name=ddp")
		if err == nil {
			require.Equal(t, "ddp", set.Schedule.Name)
		}
	}
	write(map[string]any{"schedule": map[string]any{"name": "gpipe", "stages": -1}})
	_, err := configs.Load("run")
	require.ErrorContains(t, err, "the configuration in run/result.json:4:12: schedule.stages = -1: must be ")
	write(map[string]any{"schedule": nil})
	_, err = configs.Load("run")
	require.ErrorContains(t, err, "the configuration in run/result.json")
	write(map[string]any{"schedule": map[string]any{"name": []any{nil}}})
	_, err = configs.Load("run")
	require.ErrorContains(t, err, "the configuration in run/result.json")
}

// TestResultOfAnotherVersion: a result of a version that psim does not know is refused, not read.
func TestResultOfAnotherVersion(t *testing.T) {
	require.Equal(t, results.Schema, foreign.Schema)
	t.Chdir(t.TempDir())
	for schema, want := range map[string]string{
		`1`: "", `0`: "", `null`: "", `2`: "schema is 2; this psim reads results up to 1, so a newer one has written it", `0.5`: `schema is "0.5"; it must be a whole number, 1`,
		`-1`: "it must be a whole number, 1", `"psim.result/99"`: `schema is "psim.result/99"; it must be a whole number, 1`, `true`: "it must be a whole number, 1",
	} {
		data := fmt.Sprintf(`{"schema": %s, "kind": "predicted", "name": "mine", "config": {"schedule": {"name": "gpipe", "stages": 2, "microbatches": 2}, "times": {"forward": "1ms"}}}`, schema)
		require.NoError(t, os.WriteFile("result.json", []byte(data), 0o600))
		_, err := configs.Load("result.json")
		if want == "" {
			require.NoError(t, err, schema)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
