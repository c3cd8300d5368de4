package psim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim"
	"psim/schedules/graph"
)

// offloadKeys is a small network on a device with a link to its host.
var offloadKeys = []string{
	"schedule.name=ddp", "schedule.stages=1", "schedule.microbatches=2", "batch.global=4", "batch.micro=2",
	"train.precision=bf16", "machine.device=h100-80gb-sxm",
}

// Offloading n blocks takes the tensors that these keep from the peak, and no more: they return when a backward has
// freed as much. It takes no time where the link is wide, and none is won where it is narrow.
func TestOffloadedPeak(t *testing.T) {
	at := func(n int, sets ...string) *psim.Prediction {
		return predicted(t, "gpipe", append(append(offloadKeys[:len(offloadKeys):len(offloadKeys)], sets...),
			fmt.Sprintf("train.offload_activations=%d", n))...)
	}
	for _, sets := range [][]string{{}, {"train.recompute=full"}, {"parallel.zero=3", "parallel.data=2", "batch.global=8"}} {
		// Units of ZeRO 3 are layers as well, between which the backward holds a gradient.
		before := at(0, append(sets[:len(sets):len(sets)], "parallel.zero=3")...)
		staged := before.Experiment.Staged
		var kept int64
		for _, l := range staged.Network.Layers {
			if l.IsBlock() {
				kept = staged.KeptBytes(l) * 2
			}
		}
		require.Positive(t, kept)
		for _, n := range []int{1, 3, 6, 10} {
			wide := at(n, append(sets, "machine.host_link.bandwidth=1000000TB/s", "machine.host_link.latency=0s")...)
			require.Equal(t, before.Result.Ranks[0].PeakMemory-int64(n)*kept, wide.Result.Ranks[0].PeakMemory, "%v %d", sets, n)
			require.InEpsilon(t, before.Result.StepTime, wide.Result.StepTime, 1e-3, "%v %d", sets, n)
			narrow := at(n, append(sets, "machine.host_link.bandwidth=100MB/s")...)
			require.Equal(t, wide.Result.Ranks[0].PeakMemory, narrow.Result.Ranks[0].PeakMemory)
			copies := 2 * 2 * float64(n) * float64(kept) / 1e8 // to the host and back, of two microbatches
			require.Greater(t, narrow.Result.StepTime, copies, "one copy after another")
			require.Less(t, narrow.Result.StepTime, copies+before.Result.StepTime+0.1, "%v %d", sets, n)
			require.Equal(t, before.Result.Ranks[0].PersistentMemory, narrow.Result.Ranks[0].PersistentMemory)
			require.Equal(t, before.Result.Ranks[0].PeakInFlight, narrow.Result.Ranks[0].PeakInFlight, "in flight")
		}
	}
}

// With any network, plan and link the peak is never above that without offloading and never grows with one block
// more, a step is never faster, and every byte that leaves comes back.
func TestOffloadLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers := rapid.IntRange(2, 7).Draw(t, "layers")
		microbatches, zero := rapid.IntRange(1, 3).Draw(t, "microbatches"), rapid.SampledFrom([]int{0, 3}).Draw(t, "zero")
		data := 1
		if zero == 3 {
			data = rapid.IntRange(1, 2).Draw(t, "data")
		}
		sets := []string{
			"schedule.name=ddp", "schedule.stages=1", fmt.Sprintf("model.layers=%d", layers), "train.precision=bf16",
			"machine.device=h100-80gb-sxm", fmt.Sprintf("schedule.microbatches=%d", microbatches),
			fmt.Sprintf("batch.global=%d", 2*microbatches*data), fmt.Sprintf("parallel.zero=%d", zero),
			fmt.Sprintf("parallel.data=%d", data), "parallel.overlap=" + rapid.SampledFrom([]string{"true", "false"}).Draw(t, "overlap"),
			"train.recompute=" + rapid.SampledFrom([]string{"none", "selective", "full", "core_attn"}).Draw(t, "recompute"),
			fmt.Sprintf("machine.host_link.bandwidth=%dGB/s", rapid.IntRange(1, 400).Draw(t, "link")),
		}
		before := predicted(t, "gpipe", sets...)
		peak := before.Result.Ranks[0].PeakMemory
		for n := 1; n < layers; n++ {
			p := predicted(t, "gpipe", append(sets, fmt.Sprintf("train.offload_activations=%d", n))...)
			require.LessOrEqual(t, p.Result.Ranks[0].PeakMemory, peak)
			require.GreaterOrEqual(t, p.Result.StepTime, before.Result.StepTime)
			peak = p.Result.Ranks[0].PeakMemory
			var moved int64
			for _, task := range p.Experiment.Graph.Tasks() {
				switch task.Kind {
				case graph.ToHost:
					moved += task.Bytes
				case graph.FromHost:
					moved -= task.Bytes
				}
			}
			require.Zero(t, moved)
		}
	})
}

// What cannot be offloaded is one error that names the key.
func TestOffloadErrors(t *testing.T) {
	base := append(offloadKeys[:len(offloadKeys):len(offloadKeys)], "train.offload_activations=4")
	for want, sets := range map[string][]string{
		"train.offload_activations = 12: must be less than the 12 blocks of the network":      {"train.offload_activations=12"},
		"train.offload_activations = -1: must be 0 to 10000":                                  {"train.offload_activations=-1"},
		"is modelled without a pipeline, as Megatron-LM requires; set schedule.stages = 1":    {"schedule.name=1f1b", "schedule.stages=2"},
		`needs the link to the host's memory; set machine.host_link, such as "pcie4"`:         {"machine.device=tpu-v4"},
		"with whole backwards, one after another, and not with schedule zb-h1; set schedule.": {"schedule.name=zb-h1"},
		"is not modelled with schedule pipedream; set schedule.name = \"ddp\"":                {"schedule.name=pipedream"},
		"repeats several blocks from one input; set recompute_layers = 1":                     {"train.recompute=full", "train.recompute_layers=2"},
		`needs blocks that are gathered one by one; set parallel.gather_unit = "block"`:       {"parallel.zero=3", "parallel.data=2", "batch.global=8", "parallel.gather_unit=stage"},
	} {
		c, err := psim.Load("gpipe", append(base, sets...)...)
		if err == nil {
			_, err = psim.Predict(t.Context(), c)
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
	plain, err := psim.Load("vgg16-cpu-fsdp", "train.offload_activations=4", "machine.host_link=pcie4")
	require.NoError(t, err)
	_, err = psim.Predict(t.Context(), plain)
	require.ErrorContains(t, err, "offload_activations: is about blocks of a transformer, which the network lacks")
	c, err := psim.Load("gpipe", base...)
	require.NoError(t, err)
	_, _, err = c.Executable(1)
	require.ErrorContains(t, err, "offload_activations = 4: is simulated, but not executed; set offload_activations = 0")
}
