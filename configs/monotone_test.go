package configs_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/configs"
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

// beside has gradients leave beside a backward that takes as long as they do.
func (d drawn) beside() {
	maps.Copy(d.sets, map[string]string{"schedule.name": `"ddp"`, "schedule.stages": "1", "parallel.data": "2", "parallel.overlap": "true", "machine.devices_per_node": "8"})
	delete(d.sets, "schedule.virtual_stages")
	delete(d.sets, "schedule.partition")
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
// work may fill them in another way, and so complete one later (TestBucketAnomaly): by no
// more than a part of a pass and a gather, where every rank has a thread of its own that
// waits for nothing within a pass. docs/dev/monotony.md has the reasons and the exceptions.
func TestStepIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawExperiment(t)
		if device := rapid.SampledFrom([]string{"", "a100-80gb-sxm", "h100-80gb-sxm"}).Draw(t, "device"); device != "" {
			d.onDevice(device)
		}
		switch rapid.SampledFrom([]string{"short", "long", "beside"}).Draw(t, "form") {
		case "long":
			d.long()
		case "beside":
			d.beside()
		}
		keys := slices.Concat(slices.Sorted(maps.Keys(d.rates)), slices.Sorted(maps.Keys(d.times)), slices.Sorted(maps.Keys(d.shares)),
			slices.Sorted(maps.Keys(d.halves)), slices.Sorted(maps.Keys(sizes)))
		what := rapid.SampledFrom(keys).Draw(t, "what")
		if sizes[what] != nil {
			d.lessWork(t, what)
			return
		}
		by := rapid.SampledFrom([]float64{1.01, 2}).Draw(t, "by")
		if d.shares[what] == 0 {
			by = rapid.SampledFrom([]float64{1.01, 2, 1000}).Draw(t, "much")
		}
		before, rounding := d.summary(t, same)
		after, _ := d.summary(t, func(key string) float64 {
			switch {
			case key != what:
				return 1
			case d.rates[key]+d.shares[key] > 0:
				return by
			}
			return 1 / by
		})
		require.LessOrEqual(t, after.StepTime, before.StepTime+rounding, what)
	})
}

// lessWork compares a step with one of which a size is less.
func (d drawn) lessWork(t *rapid.T, what string) {
	values := sizes[what]
	at := rapid.IntRange(1, len(values)-1).Draw(t, "at")
	if d.sets["schedule.name"] == `"interleaved-1f1b"` && what == "model.layers" {
		at = len(values) - 1 // a layer for every chunk
	}
	step := func(value string) (*configs.Experiment, time.Duration, time.Duration) {
		d.sets[what] = value
		s, rounding := d.summary(t, same)
		return d.plan(t, same), s.StepTime, rounding
	}
	larger, before, rounding := step(values[at])
	smaller, after, _ := step(values[at-1])
	allowed := time.Duration(0)
	if filled := d.sets["parallel.bucket"] != `"tensor"`; filled && (what == "model.layers" || !filledAlike(larger, smaller)) {
		d.sets["machine.host.threads"], d.times["machine.host.layer"] = `"rank"`, 0
		_, before, _ = step(values[at])
		smaller, after, _ = step(values[at-1])
		allowed = partAndGather(smaller)
	}
	require.LessOrEqual(t, after, before+rounding+allowed, what)
}

// filledAlike reports whether two plans have the same tensors in each bucket, and the same
// layers in each piece that is gathered.
func filledAlike(a, b *configs.Experiment) bool {
	return slices.EqualFunc(a.Staged.Stages, b.Staged.Stages, func(x, y stages.Stage) bool {
		return slices.EqualFunc(x.Buckets, y.Buckets, func(p, q stages.Bucket) bool { return len(p.Tensors) == len(q.Tensors) }) &&
			slices.EqualFunc(x.Ahead, y.Ahead, func(p, q stages.Piece) bool { return p.Layers == q.Layers })
	})
}

// partAndGather is the longest part of a pass that is cut, with its launch, and the longest
// gather.
func partAndGather(experiment *configs.Experiment) time.Duration {
	var part, gather time.Duration
	cut := stages.SlicedIn(experiment.Graph)
	for i := range int32(experiment.Graph.Len()) {
		task := new(experiment.Graph.Task(i))
		switch cost := experiment.Costs.Task(task); {
		case task.Kind == graph.AllGather:
			gather = max(gather, cost.Busy)
		case task.Kind.Compute() && task.Kind != graph.InputGradient && cut.Has(task):
			part = max(part, cost.Busy+cost.Launch)
		}
	}
	return part + gather
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

// Where ranks share cores, all that compute at once are slower. With a faster link both
// compute together for longer, and the step ends later.
func TestCoresAnomaly(t *testing.T) {
	step := func(latency string) time.Duration {
		d := drawn{sets: map[string]string{
			"schedule.name": `"zb-h1"`, "schedule.stages": "2", "schedule.microbatches": "3", "schedule.partition": "[2, 2]",
			"model.family": `"gpt"`, "model.layers": "1", "model.hidden": "128", "model.heads": "4", "model.vocab": "2048", "model.sequence_length": "64",
			"batch.global": "12", "machine.compute.flops": `"10GFLOP/s"`, "machine.compute.memory_bandwidth": `"1GB/s"`, "machine.compute.launch": `"1us"`,
			"machine.link.bandwidth": `"0.01GB/s"`, "machine.link.latency": strconv.Quote(latency),
			"machine.cores.number": "2", "machine.cores.forward": "6", "machine.cores.backward": "2.5",
		}}
		s, _ := d.summary(t, same)
		return s.StepTime
	}
	require.Greater(t, step("10us"), step("10ms"))
}

// A slower device may take less time where layers are divided by what they take, which then
// may be otherwise: with layers that stay where they are, it takes longer.
func TestPartitionAnomaly(t *testing.T) {
	step := func(sets ...string) time.Duration {
		_, s := run(t, parse(t, `
[schedule]
name = "1f1b"
stages = 4
microbatches = 4
[model]
family = "llama"
layers = 4
hidden = 128
heads = 2
ffn_hidden = 512
vocab = 50304
sequence_length = 64
[batch]
micro = 1
[train]
precision = "bf16"
[machine]
device = "a100-80gb-sxm"
`, sets...))
		return s.StepTime
	}
	const fast, slow = "machine.compute.efficiency=0.45", "machine.compute.efficiency=0.4"
	require.Less(t, step(slow), step(fast))
	require.Greater(t, step(slow, "schedule.partition=equal"), step(fast, "schedule.partition=equal"))
}
