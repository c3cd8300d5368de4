package configs_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// long has the pipeline on four ranks, each of which sends to two others.
func (d drawn) long() {
	if d.sets["parallel.zero"] == "3" {
		return
	}
	maps.Copy(d.sets, map[string]string{"schedule.stages": "4", "schedule.microbatches": "4", "machine.nics_per_node": d.sets["machine.devices_per_node"]})
}

// sizes lists the sizes of a step, each with values that products are aligned to: real
// ones of odd sizes are slower than of larger even ones. Megatron's softmax takes four
// matrices at a time, so that microbatches have multiples of four samples.
var sizes = map[string][]string{
	"model.sequence_length": {"64", "128", "192", "256"}, "model.hidden": {"64", "128", "256", "320", "512"},
	"model.ffn_hidden": {"64", "128", "192", "320"}, "model.vocab": {"64", "128", "192", "448"},
	"batch.global": {"32", "64", "96"}, "model.layers": {"4", "8", "12"},
}

// No step takes longer for a higher rate of any kind, a shorter time of any kind, or less
// work. Where gradients travel in buckets that are filled up to a number of bytes, less
// work may fill them in another way, and so complete one later (TestBucketAnomaly), by no
// more than the longest part of a pass, its launch, and what travels with it, each time that
// gradients leave.
func TestStepIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawExperiment(t)
		if device := rapid.SampledFrom([]string{"", "a100-80gb-sxm", "h100-80gb-sxm"}).Draw(t, "device"); device != "" {
			d.onDevice(device)
		}
		switch rapid.SampledFrom([]string{"short", "long", "beside"}).Draw(t, "form") {
		case "long":
			d.long()
		case "beside": // gradients leave beside a backward that takes as long as they do
			maps.Copy(d.sets, map[string]string{"schedule.name": `"ddp"`, "schedule.stages": "1", "parallel.data": "2", "parallel.overlap": "true", "machine.devices_per_node": "8", "machine.host.threads": `"rank"`})
			delete(d.sets, "schedule.virtual_stages")
			delete(d.sets, "schedule.partition")
		}
		keys := slices.Concat(slices.Sorted(maps.Keys(d.rates)), slices.Sorted(maps.Keys(d.times)), slices.Sorted(maps.Keys(d.shares)),
			slices.Sorted(maps.Keys(d.halves)), slices.Sorted(maps.Keys(sizes)))
		what := rapid.SampledFrom(keys).Draw(t, "what")
		allowed := time.Duration(0)
		var before, after graph.Summary
		var rounding time.Duration
		if values := sizes[what]; values != nil {
			at := rapid.IntRange(1, len(values)-1).Draw(t, "at")
			if d.sets["schedule.name"] == `"interleaved-1f1b"` && what == "model.layers" {
				at = len(values) - 1 // a layer for every chunk
			}
			d.sets[what] = values[at]
			before, rounding = d.summary(t, same)
			d.sets[what] = values[at-1]
			if d.sets["parallel.bucket"] != `"tensor"` {
				allowed = d.longestPart(t)
			}
			if d.sets["parallel.zero"] >= "2" { // gradients leave after every microbatch
				allowed *= 4
			}
			after, _ = d.summary(t, same)
		} else {
			by := rapid.SampledFrom([]float64{1.01, 2}).Draw(t, "by")
			if d.shares[what] == 0 {
				by = rapid.SampledFrom([]float64{1.01, 2, 1000}).Draw(t, "much")
			}
			before, rounding = d.summary(t, same)
			after, _ = d.summary(t, func(key string) float64 {
				switch {
				case key != what:
					return 1
				case d.rates[key]+d.shares[key] > 0:
					return by
				}
				return 1 / by
			})
		}
		require.LessOrEqual(t, after.StepTime, before.StepTime+rounding+allowed, what)
	})
}

// longestPart is the longest part of a pass that is cut, with its launch on all ranks, and
// the longest collective.
func (d drawn) longestPart(t require.TestingT) time.Duration {
	plan := d.plan(t, same)
	var part, together time.Duration
	cut := stages.SlicedIn(plan.Graph)
	for i := range plan.Graph.Tasks {
		task := &plan.Graph.Tasks[i]
		cost := plan.Costs.Task(task)
		switch {
		case task.Kind.Collective():
			together = max(together, cost.Busy)
		case task.Kind.Compute() && task.Kind != graph.InputGradient && cut.Has(task):
			part = max(part, cost.Busy+time.Duration(plan.Graph.Ranks())*cost.Launch)
		}
	}
	return part + together
}

// Two layers whose backwards take two launches each. With 256 features each layer's
// gradient fills a bucket, of which the first leaves beside the second layer's backward;
// with 192 both go together after it, and the step takes longer. So it is where one bucket
// is filled (PyTorch's reducer), whatever prices it.
func TestBucketAnomaly(t *testing.T) {
	step := func(hidden int, bucket string) time.Duration {
		d := drawn{sets: map[string]string{
			"schedule.name": `"ddp"`, "model.family": `"mlp"`, "model.layers": "2", "model.hidden": strconv.Itoa(hidden), "batch.micro": "1",
			"parallel.data": "2", "parallel.bucket": strconv.Quote(bucket), "machine.compute.flops": `"1PFLOP/s"`, "machine.compute.launch": `"1ms"`,
			"machine.link.bandwidth": `"200MB/s"`,
		}}
		s, _ := d.summary(t, same)
		return s.StepTime
	}
	require.Less(t, step(256, "200kB"), step(192, "200kB"))
	require.Greater(t, step(256, "tensor"), step(192, "tensor"))
	require.Greater(t, step(256, "100kB"), step(192, "100kB"), "each fills its own")
}
