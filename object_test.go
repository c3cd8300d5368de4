package psim_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim"
	"psim/configs"
	"psim/results"
)

// retype writes the config of a result as TOML, after it was written as JSON.
func retype(t require.TestingT, p *psim.Prediction) string {
	var b bytes.Buffer
	require.NoError(t, p.Result.WriteJSON(&b))
	read, err := results.ReadResult(&b)
	require.NoError(t, err)
	var text, same strings.Builder
	comment := []string{"of " + p.Result.Name, "\x00\n\r\x7f", ""}
	require.NoError(t, configs.WriteObject(&text, comment, read.Config))
	require.NoError(t, configs.WriteObject(&same, comment, p.Result.Config))
	require.Equal(t, same.String(), text.String())
	return text.String()
}

// requireRoundTrip checks that a result's config gives the same result.
func requireRoundTrip(t require.TestingT, c *configs.Config) {
	p, err := psim.Predict(context.Background(), c)
	require.NoError(t, err)
	text := retype(t, p)
	again, err := configs.Parse(c.Name()+".toml", []byte(text))
	require.NoError(t, err, text)
	q, err := psim.Predict(context.Background(), again)
	require.NoError(t, err, text)
	q.Result.Read = p.Result.Read // which is not of the experiment
	require.Equal(t, p.Result, q.Result, text)
}

// The config of every example's result is the same experiment.
func TestConfigRoundTrip(t *testing.T) {
	for _, name := range configs.Examples() {
		t.Run(name, func(t *testing.T) {
			c, err := psim.Load(name)
			require.NoError(t, err)
			requireRoundTrip(t, c)
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		c, err := psim.Load("gpipe", drawTraining(t)...)
		require.NoError(t, err)
		if _, err := psim.Predict(context.Background(), c); err != nil {
			t.Skip(err)
		}
		requireRoundTrip(t, c)
	})
}

// The config of a result says which kernels and attention a transformer has, whoever set
// them: the configuration, its stack, its preset or nobody; networks of other kinds have none.
func TestConfigSaysKernels(t *testing.T) {
	for _, test := range []struct {
		of                 []string
		kernels, attention any
	}{
		{[]string{"gpt2-4090d-single"}, "fused", "unfused"}, // in fp32
		{[]string{"gpt2-4090d-single", "train.precision=bf16"}, "fused", "flash"},
		{[]string{"gpt2-4090d-single", "model.kernels=eager", "model.attention=flash"}, "eager", "flash"},
		{[]string{"megatron-175b"}, "megatron", "unfused"},
		{[]string{"llama3-70b"}, "te", "flash"},
		{[]string{"llama3-70b", "train.stack=megatron-2023"}, "megatron", "unfused"},
		{[]string{"llama3-70b", "train.stack=torchtitan", "model.kernels=te"}, "te", "flash"},
		{[]string{"vgg16-cpu-ddp"}, nil, nil},
	} {
		c, err := psim.Load(test.of[0], test.of[1:]...)
		require.NoError(t, err)
		model := c.Object()["model"].(map[string]any)
		require.Equal(t, test.kernels, model["kernels"], test.of)
		require.Equal(t, test.attention, model["attention"], test.of)
		requireRoundTrip(t, c)
	}
}

// What a configuration reads from files is in the result's config, and what changes a
// named link or device, too.
func TestConfigOfFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	write("model.json", `{"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
		"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "num_local_experts": 4}`)
	write("machine.toml", `[machine]
device = "h100-80gb-sxm"
compute.launch = "0us"
memory_margin = 0.125
link = { bandwidth = "100GB/s", all_reduce = [{ranks = 2, from = "0B", call = "70us", bandwidth = "220GB/s"}] }
[[machine.optimizer]]
name = "adam"
per_tensor = "1us"
rate = "1GB/s"
`)
	write("c.toml", `
schedule = { name = "1f1b", stages = 2, microbatches = 3, partition = [3, 4] }
model = { file = "model.json", sequence_length = 32 }
batch = { micro = 2 }
parallel = { data = 2, bucket = "tensor", overlap = false }
machine = { file = "machine.toml", devices_per_node = 2, network = "ib-hdr" }
`)
	path := filepath.Join(folder, "c.toml")
	for _, sets := range [][]string{nil, {"machine.network.latency=9us"}, {"machine.link=pcie4", "machine.link.bandwidth=1GB/s"}, {"train.precision=bf16"}} {
		c, err := psim.Load(path, sets...)
		require.NoError(t, err)
		requireRoundTrip(t, c)
	}
	c, err := psim.Load("exec", "machine.compute.flops=7TFLOP/s", "model.dropout=0.1")
	require.NoError(t, err)
	c, _, err = c.Executable(3)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"device": "cpu-core", "memory_margin": 0.0, "spread": 0.0}, c.Object()["machine"])
	require.Equal(t, 3.0, c.Object()["schedule"].(map[string]any)["stages"])
}

// Changes to the link that a device comes with are in the result's config with all else of that
// link, and a speedup is there once.
func TestConfigOfChangedLinks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine.toml")
	require.NoError(t, os.WriteFile(file, []byte(`[machine]
device = "a100-80gb-sxm"
devices_per_node = 8
network = "ib-hdr"
[machine.link]
latency = "1ms"
`), 0o644))
	for _, test := range []struct {
		example string
		sets    []string
	}{
		{"1f1b", []string{"machine.link.latency=1ms"}},
		{"1f1b", []string{"machine.link.speedup=0.1"}},
		{"1f1b", []string{"machine.link.speedup=0.1", "machine.link.latency=1ms"}},
		{"1f1b", []string{"machine.link=pcie4", "machine.link.speedup=0.1"}},
		{"1f1b", []string{"machine.link.speedup=1e300"}},
		{"1f1b", []string{"machine.devices_per_node=2", "machine.network.speedup=3"}},
		{"1f1b", []string{"machine.file=" + file}},
		{"ddp", []string{"machine.link.collective_bandwidth=1GB/s"}},
		{"ddp", []string{"machine.link.collective_call=1ms"}},
		{"ddp", []string{"machine.link.algorithm=tree"}},
		{"ddp", []string{"machine.link.all_reduce=[]"}},
		{"ring-allreduce", []string{"machine.link.speedup=0.1"}},
	} {
		plain, err := psim.Load(test.example, test.sets[:len(test.sets)-1]...)
		require.NoError(t, err)
		before, err := psim.Predict(context.Background(), plain)
		require.NoError(t, err)
		c, err := psim.Load(test.example, test.sets...)
		require.NoError(t, err)
		after, err := psim.Predict(context.Background(), c)
		require.NoError(t, err)
		require.NotEqual(t, before.Result.StepTime, after.Result.StepTime, test.sets)
		requireRoundTrip(t, c)
	}
}

// What a stack sets is in the result's config only where it could be given as well.
func TestConfigOfStacks(t *testing.T) {
	for _, stack := range configs.Stacks() {
		for _, test := range []struct {
			example string
			gathers bool // what a stack may set
			sets    []string
		}{
			{"llama3-70b", true, []string{"parallel.zero=1"}},
			{"llama3-70b", false, []string{"parallel.zero=0"}},
			{"llama3-70b", false, []string{"schedule.name=dualpipe"}},
			{"llama3-70b", false, []string{"schedule.name=chimera"}},
			{"ddp", false, []string{"parallel.zero=3"}},
		} {
			c, err := psim.Load(test.example, append(test.sets, "train.stack="+stack.Name)...)
			require.NoError(t, err)
			gathers, written := c.Object()["parallel"].(map[string]any)["overlap_gather"]
			require.Equal(t, !c.Parallel.OverlapGather || test.gathers, written, test.sets)
			require.Equal(t, c.Parallel.OverlapGather && test.gathers, written && gathers.(bool), test.sets)
			requireRoundTrip(t, c)
		}
	}
}
