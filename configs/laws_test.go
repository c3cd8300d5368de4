package configs_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/configs"
	"psim/costmodel/link"
	"psim/schedules/graph"
	"psim/sim"
)

// A drawn is an experiment as settings. Two ranks at most, or a network card for every
// device (long), so that all that leaves by a link or card does so in a fixed order: where
// transfers of several devices overtake each other, a faster link may make a step longer
// (TestLinkAnomaly of sim).
type drawn struct {
	sets map[string]string
	// Of the machine, by their keys: rates in FLOP/s and B/s, times in seconds, shares of a
	// rate, and sizes that reach half of one.
	rates, times, shares, halves map[string]float64
}

func drawExperiment(t *rapid.T) drawn {
	choose := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	name := func(key string, from ...string) string { return strconv.Quote(choose(key, from...)) }
	truth := func(key string) string { return choose(key, "true", "false") }
	d := drawn{sets: map[string]string{
		"schedule.name": name("schedule", "gpipe", "1f1b", "zb-h1", "model-parallel", "interleaved-1f1b"), "schedule.stages": choose("stages", "1", "2"),
		"schedule.microbatches": choose("microbatches", "1", "2", "4"), "schedule.partition": `"equal"`,
		"model.family": name("family", "gpt", "llama", "mixtral"), "model.layers": "8", "model.hidden": choose("hidden", "64", "128", "256"),
		"model.heads": "4", "model.vocab": "256", "model.sequence_length": choose("sequence", "64", "128"), "model.ffn_hidden": "256",
		"model.kernels": name("kernels", "eager", "compiled", "te", "fused", "megatron"), "model.attention": name("attention", "flash", "unfused"),
		"batch.global": "32", "parallel.data": choose("data", "1", "2"), "parallel.tensor": choose("tensor", "1", "2", "4"), "parallel.sequence": truth("sequence parallel"),
		"parallel.tensor_overlap": truth("tensor overlap"), "parallel.zero": choose("zero", "0", "1", "2", "3"), "parallel.overlap": truth("overlap"),
		"parallel.overlap_gather": truth("overlap gather"), "parallel.bucket": name("bucket", "tensor", "100kB"),
		"train.precision": name("precision", "fp32", "bf16"), "train.recompute": name("recompute", "none", "selective", "full"),
		"train.selective": name("selective", "attention", "operations"), "train.clip": truth("clip"),
		"machine.devices_per_node": choose("devices_per_node", "2", "4"), "machine.link.algorithm": name("link", link.Algorithms()...),
		"machine.network.algorithm": name("network", link.Algorithms()...), "machine.link.nccl": name("nccl", "2.4", "2.17", "2.29"),
		"machine.network.sharp": truth("sharp"), "machine.host.threads": name("threads", "rank", "node"),
		"machine.host.queue": choose("queue", "0", "2"), "machine.host.waits": truth("waits"),
	}}
	var stacks []string
	for _, s := range configs.Stacks() {
		stacks = append(stacks, s.Name)
	}
	if choose("by stack", "yes", "no") == "yes" {
		d.sets["train.stack"] = name("stack", stacks...)
		delete(d.sets, "model.kernels")
		delete(d.sets, "model.attention")
	}
	if choose("context", "1", "2") == "2" {
		d.sets["parallel.context"], d.sets["parallel.context_method"] = "2", name("context_method", "ring", "all-gather", "ulysses")
		d.sets["model.attention"] = `"flash"`
		if d.sets["parallel.tensor"] == "4" { // of 4 heads
			d.sets["parallel.tensor"] = "2"
		}
	}
	if d.sets["model.family"] != `"gpt"` {
		d.sets["model.code"] = name("code", "plain", "nanotron", "torchtitan")
	}
	d.sets["parallel.order"] = name("order", "tp-pp-dp", "tp-dp-pp")
	if d.sets["model.family"] == `"mixtral"` {
		maps.Copy(d.sets, map[string]string{"model.experts": "4", "model.experts_per_token": "2"})
	}
	if d.sets["schedule.name"] == `"interleaved-1f1b"` {
		maps.Copy(d.sets, map[string]string{"schedule.virtual_stages": "2", "schedule.stages": "2", "parallel.overlap_gather": "false"})
	}
	if d.sets["parallel.tensor"] == "1" {
		d.sets["parallel.sequence"] = "false"
	}
	if d.sets["parallel.zero"] == "3" {
		maps.Copy(d.sets, map[string]string{"schedule.name": `"ddp"`, "schedule.stages": "1", "parallel.overlap_gather": "false"})
		delete(d.sets, "schedule.virtual_stages")
		delete(d.sets, "schedule.partition")
	}
	if tensor := d.sets["parallel.tensor"]; d.sets["model.family"] == `"mixtral"` && d.sets["parallel.zero"] != "3" && (tensor == "1" || d.sets["parallel.sequence"] == "true") {
		groups := map[string][]string{"11": {"1"}, "21": {"1", "2"}, "41": {"1", "2", "4"}, "12": {"1", "2"}, "22": {"1", "2", "4"}, "42": {"1", "2", "4"}}
		maps.Copy(d.sets, map[string]string{
			"parallel.expert": choose("expert", groups[tensor+d.sets["parallel.data"]]...), "parallel.dispatcher": name("dispatcher", "alltoall", "deepep"),
			"parallel.dispatch": name("dispatch", "activations", "fp8"), "model.imbalance": choose("imbalance", "1.0", "1.3"),
		})
	}
	scale := func(name string) float64 { return rapid.SampledFrom([]float64{0.03, 1, 30}).Draw(t, name) }
	d.rates = map[string]float64{
		"machine.compute.flops": 1e10 * scale("flops"), "machine.compute.memory_bandwidth": 1e9 * scale("memory"),
		"machine.link.bandwidth": 1e9 * scale("bandwidth"), "machine.link.collective_bandwidth": 5e8 * scale("collective"),
		"machine.network.bandwidth": 1e8 * scale("network bandwidth"), "machine.link.all_to_all_bandwidth": 1e9 * scale("all to all"),
		"machine.link.nvls_bandwidth": 5e8 * scale("nvls"),
	}
	d.times = map[string]float64{
		"machine.compute.launch": 1e-5 * scale("launch"), "machine.link.latency": 1e-5 * scale("latency"),
		"machine.link.collective_call": 1e-4 * scale("call"), "machine.network.latency": 1e-4 * scale("network latency"),
		"machine.network.collective_call": 1e-4 * scale("network call"), "machine.link.pat_rank": 1e-5 * scale("pat"),
		"machine.host.operation": 1e-5 * scale("operation"), "machine.host.task": 1e-4 * scale("task"),
		"machine.host.layer": 1e-4 * scale("layer"), "machine.host.message": 1e-4 * scale("message"),
	}
	d.shares = map[string]float64{
		"machine.compute.unaligned": 0.4, "machine.compute.unaligned_heads": 0.1, "machine.compute.attention": 0.5,
		"machine.link.speedup": 0.5, "machine.network.speedup": 0.5,
	}
	d.halves = map[string]float64{"machine.spread": 0.01 * scale("spread"), "machine.compute.half_rows": 64 * scale("half_rows"), "machine.compute.half_head": 16 * scale("half_head")}
	return d
}

// onDevice has the experiment on a device of the catalog, whose shares of its peak it
// names.
func (d drawn) onDevice(name string) {
	d.sets["machine.device"], d.sets["train.precision"] = strconv.Quote(name), `"bf16"`
	delete(d.rates, "machine.compute.flops")
	delete(d.halves, "machine.compute.half_rows")
	delete(d.shares, "machine.compute.unaligned")
	d.shares["machine.compute.efficiency"] = 0.4
}

// summary simulates the experiment with every rate and time multiplied by a factor.
// It also returns how much rounding may add up to: a nanosecond for every task.
func (d drawn) summary(t require.TestingT, factor func(key string) float64) (s graph.Summary, rounding time.Duration) {
	experiment := d.plan(t, factor)
	trace, err := sim.Run(experiment.Graph, experiment.Costs)
	require.NoError(t, err)
	return graph.Summarize(trace), time.Duration(experiment.Graph.Len())
}

func (d drawn) plan(t require.TestingT, factor func(key string) float64) *configs.Experiment {
	var text strings.Builder
	for key, value := range d.sets {
		fmt.Fprintf(&text, "%s = %s\n", key, value)
	}
	for key, value := range d.rates {
		unit := "B/s"
		if key == "machine.compute.flops" {
			unit = "FLOP/s"
		}
		fmt.Fprintf(&text, "%s = \"%.6f%s\"\n", key, value*factor(key), unit)
	}
	for key, value := range d.times {
		fmt.Fprintf(&text, "%s = \"%.0fns\"\n", key, value*1e9*factor(key))
	}
	for _, numbers := range []map[string]float64{d.shares, d.halves} {
		for key, value := range numbers {
			fmt.Fprintf(&text, "%s = %f\n", key, value*factor(key))
		}
	}
	c, err := configs.Parse("x.toml", []byte(text.String()))
	require.NoError(t, err)
	experiment, err := c.Build()
	require.NoError(t, err)
	return experiment
}

func same(string) float64 { return 1 }

// Units are consistent: in a unit of time that is k times as long, every rate is k
// times as high, every time a kth, and so is the step. What is counted, bytes, FLOPs
// and memory, stays.
func TestUnitOfTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawExperiment(t)
		const k = 8
		before, _ := d.summary(t, same)
		after, _ := d.summary(t, func(key string) float64 {
			switch {
			case d.rates[key] > 0:
				return 1.0 / k
			case d.times[key] > 0:
				return k
			}
			return 1
		})
		// Every operation of a task is rounded to a nanosecond.
		rounding := 1e-6*after.StepTime.Seconds() + 1e-6
		require.InDelta(t, k*before.StepTime.Seconds(), after.StepTime.Seconds(), k*rounding)
		require.InDelta(t, k*before.Makespan.Seconds(), after.Makespan.Seconds(), k*rounding)
		for r := range before.Ranks {
			x, y := before.Ranks[r], after.Ranks[r]
			require.InDelta(t, k*x.Compute.Seconds(), y.Compute.Seconds(), k*rounding)
			require.InDelta(t, k*x.Dispatch.Seconds(), y.Dispatch.Seconds(), k*rounding)
			require.Equal(t, []int64{x.SentBytes, x.PeakMemory, x.PersistentMemory}, []int64{y.SentBytes, y.PeakMemory, y.PersistentMemory})
		}
	})
}
