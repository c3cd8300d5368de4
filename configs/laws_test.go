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

// A drawn is an experiment as settings. Two ranks at most, so that all that leaves a
// device goes to one other in a fixed order: where transfers overtake each other, a
// faster link may make a step longer (TestLinkAnomaly of sim).
type drawn struct {
	sets map[string]string
	// Of the machine, by their keys: rates in FLOP/s and B/s, and times in seconds.
	rates, times map[string]float64
}

func drawExperiment(t *rapid.T) drawn {
	choose := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	name := func(key string, from ...string) string { return strconv.Quote(choose(key, from...)) }
	d := drawn{sets: map[string]string{
		"schedule.name": name("schedule", "gpipe", "1f1b", "zb-h1", "model-parallel"), "schedule.stages": choose("stages", "1", "2"),
		"schedule.microbatches": choose("microbatches", "1", "3"), "schedule.partition": `"equal"`,
		"model.family": name("family", "gpt", "llama", "mixtral"), "model.layers": "4", "model.hidden": choose("hidden", "64", "256"),
		"model.heads": "4", "model.vocab": "256", "model.sequence_length": choose("sequence", "16", "128"), "model.ffn_hidden": "256",
		"batch.global": "12", "parallel.data": choose("data", "1", "2"), "parallel.tensor": choose("tensor", "1", "2", "4"),
		"parallel.zero": choose("zero", "0", "1", "2"), "parallel.overlap": choose("overlap", "true", "false"), "parallel.overlap_gather": choose("overlap gather", "true", "false"), "parallel.bucket": `"100kB"`,
		"train.precision": name("precision", "fp32", "bf16"), "train.recompute": name("recompute", "none", "selective", "full"),
		"train.clip": choose("clip", "true", "false"), "machine.compute.half_rows": choose("half_rows", "0.0", "64.0"),
		"machine.devices_per_node": choose("devices_per_node", "2", "4"), "machine.link.algorithm": name("link", link.Algorithms()...),
		"machine.network.algorithm": name("network", link.Algorithms()...), "machine.host.threads": name("threads", "rank", "node"),
		"machine.host.queue": choose("queue", "0", "2"), "machine.host.waits": choose("waits", "true", "false"),
	}}
	if d.sets["model.family"] == `"mixtral"` {
		maps.Copy(d.sets, map[string]string{"model.experts": "4", "model.experts_per_token": "2"})
	}
	scale := func(name string) float64 { return rapid.SampledFrom([]float64{0.03, 1, 30}).Draw(t, name) }
	d.rates = map[string]float64{
		"machine.compute.flops": 1e10 * scale("flops"), "machine.compute.memory_bandwidth": 1e9 * scale("memory"),
		"machine.link.bandwidth": 1e9 * scale("bandwidth"), "machine.link.collective_bandwidth": 5e8 * scale("collective"),
		"machine.network.bandwidth": 1e8 * scale("network bandwidth"),
	}
	d.times = map[string]float64{
		"machine.compute.launch": 1e-5 * scale("launch"), "machine.link.latency": 1e-5 * scale("latency"),
		"machine.link.collective_call": 1e-4 * scale("call"), "machine.network.latency": 1e-4 * scale("network latency"),
		"machine.host.operation": 1e-5 * scale("operation"), "machine.host.task": 1e-4 * scale("task"),
		"machine.host.message": 1e-4 * scale("message"),
	}
	return d
}

// summary simulates the experiment with every rate and time multiplied by a factor.
// It also returns how much rounding may add up to: a nanosecond for every task.
func (d drawn) summary(t require.TestingT, factor func(key string) float64) (s graph.Summary, rounding time.Duration) {
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
	c, err := configs.Parse("x.toml", []byte(text.String()))
	require.NoError(t, err)
	plan, err := c.Build()
	require.NoError(t, err)
	trace, err := sim.Run(plan.Graph, plan.Costs)
	require.NoError(t, err)
	return graph.Summarize(trace), time.Duration(len(plan.Graph.Tasks))
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
			if _, rate := d.rates[key]; rate {
				return 1.0 / k
			}
			return k
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

// No step takes longer for a higher rate of any kind, a shorter time of any kind, or
// less work.
func TestStepIsMonotone(t *testing.T) {
	less := map[string]string{"model.sequence_length": "8", "model.hidden": "32", "model.ffn_hidden": "64", "model.vocab": "64", "batch.global": "6"}
	rapid.Check(t, func(t *rapid.T) {
		d := drawExperiment(t)
		if d.sets["parallel.overlap"] == "true" { // slices of a backward share its launches by time, and shares may grow
			d.times["machine.host.operation"], d.times["machine.host.task"] = 0, 0
		}
		what := rapid.SampledFrom([]string{
			"machine.compute.flops", "machine.compute.memory_bandwidth", "machine.link.bandwidth", "machine.link.collective_bandwidth",
			"machine.network.bandwidth", "machine.compute.launch", "machine.link.latency", "machine.link.collective_call",
			"machine.network.latency", "machine.host.operation", "machine.host.task",
			"model.sequence_length", "model.hidden", "model.ffn_hidden", "model.vocab", "batch.global",
		}).Draw(t, "what")
		by := rapid.SampledFrom([]float64{1.01, 2, 1000}).Draw(t, "by")
		value, work := less[what]
		if work { // less of it must not fill buckets of gradients in another way
			d.sets["parallel.bucket"] = `"tensor"`
		}
		switch what {
		case "model.hidden", "model.ffn_hidden", "model.vocab": // slices of a backward share its layer's time by bytes
			d.sets["parallel.overlap"] = "false"
		}
		before, rounding := d.summary(t, same)
		if work {
			d.sets[what] = value
		}
		after, _ := d.summary(t, func(key string) float64 {
			_, rate := d.rates[key]
			switch {
			case key != what:
				return 1
			case rate:
				return by
			}
			return 1 / by
		})
		require.LessOrEqual(t, after.StepTime, before.StepTime+rounding, what)
	})
}
