package configs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// A rack whose link joins 72 devices is one node without a word, and no more than 72 are.
func TestDomain(t *testing.T) {
	const text = "[schedule]\nname = \"ddp\"\n[model]\npreset = \"gpt2\"\n[batch]\nglobal = 144\n[parallel]\ndata = 72\n[machine]\ndevice = \"gb200-nvl72\"\n"
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{nil, nil},
		{[]string{"parallel.data=144"}, []string{"machine.devices_per_node is not given: all 144 devices are taken to be in one node, joined by its link; set it, and machine.network, if there are several"}},
		{[]string{"parallel.data=144", "machine.devices_per_node=144"}, []string{"machine.devices_per_node = 144: the link of gb200-nvl72 joins 72 devices; a node is taken to have one that joins all"}},
		{[]string{"parallel.data=144", "machine.devices_per_node=72", "machine.network=ib-ndr", "machine.nics_per_node=72"}, nil},
	} {
		experiment, err := parse(t, text, c.sets...).Build()
		require.NoError(t, err)
		require.Equal(t, c.want, experiment.Warnings)
	}
}

// Measured collectives of more ranks than a node has devices, or of more than there
// are nodes, price nothing, and that is said.
func TestUnusedRanges(t *testing.T) {
	const text = "[schedule]\nname = \"ddp\"\n[model]\npreset = \"gpt2\"\n[batch]\nglobal = 16\n[parallel]\ndata = 16\n" +
		"[machine]\ndevice = \"a100-80gb-sxm\"\nnetwork = \"ib-hdr\"\nnics_per_node = 1\n"
	table := func(ranks string) string { return `[{ranks = ` + ranks + `, bandwidth = "9GB/s"}]` }
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{[]string{"machine.devices_per_node=8"}, nil},
		{[]string{"machine.devices_per_node=4"}, nil}, // a catalog's link has tables for 2 to 8
		{[]string{"machine.link.all_reduce=" + table("16"), "machine.link.bandwidth=9GB/s", "machine.devices_per_node=16"}, nil},
		{[]string{"machine.link.all_reduce=" + table("16"), "machine.link.bandwidth=9GB/s", "machine.devices_per_node=8"},
			[]string{"machine.link.all_reduce of 16 ranks prices nothing here: it is for collectives inside a node, which has 8 devices"}},
		{[]string{"machine.network.all_gather=" + table("16"), "machine.devices_per_node=8"},
			[]string{"machine.network.all_gather of 16 ranks prices nothing here: it is for one rank on each of 2 nodes"}},
		{[]string{"machine.network.all_gather=" + table("2"), "machine.devices_per_node=8"}, nil},
	} {
		experiment, err := parse(t, text, c.sets...).Build()
		require.NoError(t, err)
		require.Equal(t, c.want, experiment.Warnings)
	}
}

// Of a share of the peak and a rate the rate holds, and that is said; a stack's share is not
// what was asked for.
func TestOutrated(t *testing.T) {
	const text = "[schedule]\nname = \"ddp\"\n[model]\npreset = \"gpt2\"\n[batch]\nglobal = 4\n[train]\nstack = \"megatron-2021\"\nprecision = \"bf16\"\n[machine]\ndevice = \"a100-80gb-sxm\"\n"
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{nil, nil},
		{[]string{"machine.compute.flops=100TFLOP/s"}, nil},
		{[]string{"machine.compute.efficiency=0.3"}, nil},
		{[]string{"machine.compute.efficiency=0.3", "machine.compute.flops=100TFLOP/s"},
			[]string{"machine.compute.efficiency = 0.3: no effect with machine.compute.flops, which says what products reach; give one of the two"}},
		{[]string{"machine.compute.efficiency_fp8=0.3", "machine.compute.flops_fp8=100TFLOP/s"},
			[]string{"machine.compute.efficiency_fp8 = 0.3: no effect with machine.compute.flops_fp8, which says what products reach; give one of the two"}},
	} {
		experiment, err := parse(t, text, c.sets...).Build()
		require.NoError(t, err)
		require.Equal(t, c.want, experiment.Warnings)
	}
}

// Keys that a collective by itself does not need do nothing, which is said; links of the catalog
// may have them. A collective that no library has goes by bandwidth and latency alone.
func TestOnlySpelled(t *testing.T) {
	const text = "[schedule]\nname = \"ring-allreduce\"\n[collective]\nbytes = \"1GB\"\nranks = 8\n[machine]\ndevice = \"a100-80gb-sxm\"\n"
	const why = ": no effect here; [collective] simulates the messages of ring-allreduce"
	const pairs = ": no effect here; [collective] simulates the messages of tree-allreduce"
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{nil, nil},
		{[]string{"machine.link=pcie4", "machine.link.latency=5us"}, []string{"machine.device" + why}}, // whose link is another
		{[]string{"machine.link.bandwidth=1GB/s", "machine.link.collective_bandwidth=1GB/s", "machine.link.algorithm=tree"},
			[]string{"machine.device, machine.link.algorithm" + why}},
		{[]string{"machine.network=ib-hdr", "machine.network.collective_call=5us", "machine.devices_per_node=4"}, nil},
		{[]string{"schedule.name=tree-allreduce", "machine.link.collective_bandwidth=1GB/s", "machine.link.collective_call=1us"},
			[]string{"machine.link.collective_bandwidth, machine.link.collective_call" + pairs}},
		{[]string{"machine.memory_per_node=4GB", "machine.memory_margin=0.5"}, []string{"machine.memory_per_node, machine.memory_margin" + why}},
		{[]string{"machine.link.latency=5us"}, nil}, // of the device's link
		{[]string{"machine.link=pcie4", "machine.compute.flops=1TFLOP/s", "machine.host.operation=5us"}, []string{"machine.device, machine.compute, machine.host" + why}},
	} {
		experiment, err := parse(t, text, c.sets...).Build()
		require.NoError(t, err)
		require.Equal(t, c.want, experiment.Warnings)
	}
}

// What psim takes for granted and decides much is said, with the key to say it, and is
// not where the user said it.
func TestAssumed(t *testing.T) {
	folder := t.TempDir()
	config := filepath.Join(folder, "config.json")
	build := func(json string, sets ...string) []string {
		require.NoError(t, os.WriteFile(config, []byte(json), 0o644))
		path := filepath.Join(folder, "x.toml")
		require.NoError(t, os.WriteFile(path, []byte(`
schedule = { name = "ddp" }
model = { file = "config.json" }
batch = { micro = 1 }
machine = { device = "h100-80gb-sxm", network = "ib-ndr" }
`), 0o644))
		c, err := configs.Load(path, sets...)
		require.NoError(t, err)
		experiment, err := c.Build()
		require.NoError(t, err)
		return experiment.Warnings
	}
	const small = `"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 99, "intermediate_size": 64`
	const llama = `{"model_type": "llama", "max_position_embeddings": 131072, ` + small + `}`
	const mistral = `{"model_type": "mistral", "sliding_window": 4096, ` + small + `}`
	const length, long = "model.sequence_length=8192", "model.sequence_length=512"
	require.Equal(t, []string{"model.sequence_length is not given: samples are taken to be as long as config.json allows, 131,072 tokens; set model.sequence_length to what is trained"}, build(llama))
	require.Empty(t, build(llama, length))

	require.Equal(t, []string{`config.json has a sliding window of 4,096 tokens, which unfused attention does not leave out: it is priced over all 8,192; set model.attention = "flash", or model.sequence_length to the window to see how much that can be`}, build(mistral, length))
	require.Len(t, build(strings.Replace(mistral, `"sliding_window": 4096,`, "", 1), length), 1, "the type's default")
	require.Empty(t, build(mistral, long))
	require.Empty(t, build(strings.Replace(mistral, "4096", "null", 1), length))
	const qwen = `{"model_type": "qwen2", "sliding_window": 4096, ` + small
	require.Empty(t, build(qwen+"}", length))
	require.Len(t, build(qwen+`, "use_sliding_window": true}`, length), 1)

	require.Equal(t, []string{"machine.devices_per_node is not given: all 16 devices are taken to be in one node, joined by its link; set it, and machine.network, if there are several"},
		build(llama, long, "parallel.data=16"))
	require.Len(t, build(llama, long, "parallel.data=2"), 1)
	require.Empty(t, build(llama, long, "parallel.data=2", "machine.devices_per_node=2"))
	require.Empty(t, build(llama, long, "parallel.data=16", "machine.device=cs1390-core", "train.precision=fp32"), "cores of a host")
	own := filepath.Join(folder, "own.toml")
	require.NoError(t, os.WriteFile(own, []byte("[machine]\ncompute.flops = \"1TFLOP/s\"\nlink.bandwidth = \"1GB/s\"\n"), 0o644))
	require.Empty(t, build(llama, long, "parallel.data=8", "machine.file="+own), "a link of one's own")
	require.Len(t, build(llama, long, "parallel.data=16", "machine.file="+own), 1)
	require.Empty(t, build(llama, long, "parallel.data=16", "machine.devices_per_node=16"))
	require.Equal(t, []string{"machine.nics_per_node is not given: the 8 devices of a node are taken to share one network card; set it to the cards that a node has"},
		build(llama, long, "parallel.data=16", "machine.devices_per_node=8"))
	require.Empty(t, build(llama, long, "parallel.data=16", "machine.devices_per_node=8", "machine.nics_per_node=1"))
}

// Gathers beside the next forward are those of ZeRO 1 and 2.
func TestGatherWithoutUpdate(t *testing.T) {
	for zero, want := range map[string]int{"0": 1, "1": 0, "2": 0, "3": 1} {
		c, err := configs.Load("ddp", "parallel.overlap_gather=true", "parallel.zero="+zero)
		require.NoError(t, err)
		experiment, err := c.Build()
		require.NoError(t, err)
		require.Len(t, experiment.Warnings, want, zero)
		if want > 0 {
			require.Contains(t, experiment.Warnings[0], "parallel.overlap_gather = true: no effect with parallel.zero = "+zero)
		}
	}
}

// A broadcast has no effect with one replica.
func TestBroadcastToNoOther(t *testing.T) {
	for replicas, want := range map[string]int{"1": 1, "2": 0} {
		c, err := configs.Load("ddp", "parallel.broadcast=true", "parallel.data="+replicas)
		require.NoError(t, err)
		experiment, err := c.Build()
		require.NoError(t, err)
		require.Len(t, experiment.Warnings, want)
		if want > 0 {
			require.Contains(t, experiment.Warnings[0], "parallel.broadcast = true: no effect with parallel.data = 1 and parallel.context = 1, since there is no other replica")
		}
	}
}

// Parts of sequences with windows do not attend to each other in rings.
func TestRingOfWindows(t *testing.T) {
	warned := func(sets ...string) bool {
		c, err := configs.Load("llama3-70b", append(sets, "parallel.context=2", "parallel.tensor=4", "batch.global=16")...)
		require.NoError(t, err)
		experiment, err := c.Build()
		require.NoError(t, err)
		return slices.ContainsFunc(experiment.Warnings, func(w string) bool { return strings.Contains(w, "none for sliding windows") })
	}
	require.True(t, warned("model.window=1024"))
	require.False(t, warned("model.window=1024", "parallel.context_method=all-gather"))
	require.False(t, warned())
}

// [times] are of each stage: a setting that gives ranks more stages makes more work of them, which a
// warning says, with the settings for the same work. A file that has several stages means them.
func TestMoreStagesAreMoreWork(t *testing.T) {
	const text = `[schedule]
name = "1f1b"
stages = 4
microbatches = 8
[times]
forward = "10ms"
backward_input = "10ms"
backward_weight = "10ms"
[memory]
activation = "2GB"
`
	const same = "--set times.forward=5ms --set times.backward_input=5ms --set times.backward_weight=5ms --set memory.activation=1GB"
	two := strings.Replace(text, `"1f1b"`, `"interleaved-1f1b"`+"\nvirtual_stages = 2", 1)
	for _, c := range []struct {
		text string
		sets string // apart by spaces
		want string
	}{
		{text, "schedule.name=gpipe schedule.stages=8", ""},
		{text, "schedule.name=dualpipe", ""}, // as many stages, twice
		{two, "schedule.microbatches=4", ""},
		{
			text, "schedule.name=interleaved-1f1b schedule.virtual_stages=2",
			"[times] are of each stage: 8 stages do 2 times the work of the 4 in x.toml; for the same work: " + same,
		},
		{
			text, "schedule.name=zbv",
			"[times] are of each stage: 8 stages do 2 times the work of the 4 in x.toml; for the same work: " + same,
		},
		{
			two, "schedule.virtual_stages=1",
			"[times] are of each stage: 4 stages do 0.5 times the work of the 8 in x.toml; for the same work: " +
				"--set times.forward=20ms --set times.backward_input=20ms --set times.backward_weight=20ms --set memory.activation=4GB",
		},
		{text, "schedule.name=zbv " + strings.ReplaceAll(same, "--set ", ""), ""},
		{text, "schedule.name=interleaved-1f1b schedule.virtual_stages=2 schedule.stages=2", ""}, // as many stages
		{
			text, "schedule.name=interleaved-1f1b schedule.virtual_stages=3 schedule.stages=8 memory.activation=1GB",
			"[times] are of each stage: 24 stages do 6 times the work of the 4 in x.toml",
		},
	} {
		experiment, err := parse(t, c.text, strings.Fields(c.sets)...).Build()
		require.NoError(t, err, c.sets)
		require.Equal(t, c.want, strings.Join(experiment.Warnings, "\n"), c.sets)
	}
}

// Names of PEFT are read as psim's, and an adapter without a kind trains all weights, which is said.
func TestAdapterNames(t *testing.T) {
	load := func(sets ...string) *configs.Config {
		c, err := configs.Load("model:llama3-8b", append(sets, "machine.device=h100-80gb-sxm")...)
		require.NoError(t, err)
		return c
	}
	for given, want := range map[string]string{
		"all-linear": "all", `["q_proj", "v_proj"]`: "q,v", "c_proj": "o,down", "w1,w2,w3": "gate,up,down", "q,lm_head": "q,head",
	} {
		require.Equal(t, want, load("train.adapter.kind=lora", "train.adapter.targets="+given).Train.Adapter.Targets, given)
	}
	built, err := load("train.adapter.rank=16").Build()
	require.NoError(t, err)
	require.Contains(t, built.Warnings, `train.adapter.rank = 16: all weights are trained, since train.adapter.kind is not given; set it to "lora" or "qlora"`)
}
