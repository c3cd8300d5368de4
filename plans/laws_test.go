package plans_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim"
	"psim/configs"
	"psim/plans"
	"psim/results/rankings"
	"psim/schedules"
)

// mostPlans keeps a random space so small that all of it can be simulated.
const mostPlans = 12

// asked are values of dimensions that a small network would not be tried with.
func asked(experts bool) []rankings.Variation {
	recompute := rankings.Variation{Key: "train.recompute", Values: []string{"none", "selective", "full", "norm", "core_attn"}}
	if experts {
		recompute.Values = append(recompute.Values, "moe_act", "moe_act,norm")
	} else {
		recompute.Values = append(recompute.Values, "mlp", "mlp,norm")
	}
	return []rankings.Variation{
		{Key: "parallel.context", Values: []string{"1", "2", "4"}}, {Key: "parallel.expert", Values: []string{"1", "2", "4"}},
		{Key: "parallel.expert_tensor", Values: []string{"1", "2"}}, recompute,
	}
}

// drawSpace draws a configuration and a question about it that has a few plans.
func drawSpace(t *rapid.T) (*configs.Config, plans.Query) {
	choose := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	sets := []string{
		"schedule.name=gpipe", "model.family=" + choose("family", "gpt", "llama", "mixtral"), "model.layers=" + choose("layers", "2", "4", "6"),
		"model.hidden=" + choose("hidden", "64", "256"), "model.heads=4", "model.vocab=256", "model.sequence_length=" + choose("sequence", "16", "128"),
		"model.ffn_hidden=256", "model.attention=" + choose("attention", "flash", "unfused"), "model.kernels=" + choose("kernels", "eager", "compiled", "te", "fused", "megatron"),
		"batch.global=" + choose("batch", "8", "12", "24"), "parallel.overlap=" + choose("overlap", "true", "false"), "parallel.overlap_gather=" + choose("overlap gather", "true", "false"),
		"parallel.bucket=" + choose("bucket", "30kB", "1MB", "tensor"), "parallel.tensor_overlap=" + choose("tensor overlap", "true", "false"),
		"parallel.scatter_gather=" + choose("scatter", "true", "false"), "parallel.collectives=" + choose("collectives", "nccl", "gloo"),
		"train.precision=" + choose("precision", "fp32", "bf16", "fp16"), "train.optimizer=" + choose("optimizer", "sgd", "adamw"), "train.clip=" + choose("clip", "true", "false"),
		"train.gradients=fp32", "train.selective=" + choose("selective", "attention", "operations"), "train.backward=" + choose("backward", "whole", "whole", "per-layer", "two-pass"),
		"train.stack=" + choose("stack", append([]string{"none", "none"}, stackNames()...)...),
		"machine.compute.flops=" + choose("flops", "10GFLOP/s", "1TFLOP/s"), "machine.compute.memory_bandwidth=" + choose("memory", "1GB/s", "30GB/s"),
		"machine.compute.launch=" + choose("launch", "0us", "10us"), "machine.devices_per_node=" + choose("devices per node", "1", "2", "4", "8"),
		"machine.link.bandwidth=" + choose("link", "100MB/s", "10GB/s"), "machine.link.latency=" + choose("latency", "0us", "20us"), "machine.link.shared=" + choose("shared", "device", "node"),
		"machine.network.bandwidth=" + choose("network", "10MB/s", "1GB/s"), "machine.network.latency=" + choose("network latency", "0us", "200us"), "machine.nics_per_node=" + choose("cards", "1", "4"),
		"machine.host.operation=" + choose("operation", "0us", "0us", "30us"), "machine.host.task=" + choose("task", "0us", "0us", "100us"), "machine.host.message=" + choose("message", "0us", "0us", "100us"),
		"machine.host.threads=" + choose("threads", "rank", "node"), "machine.host.waits=" + choose("waits", "true", "false"),
	}
	if sets[1] == "model.family=mixtral" {
		sets = append(sets, "model.experts=4", "model.experts_per_token=2", "parallel.dispatcher="+choose("dispatcher", "alltoall", "deepep"),
			"parallel.dispatch="+choose("dispatch", "activations", "fp8"), "model.shared_experts="+choose("shared experts", "0", "1"),
			"parallel.expert_overlap="+choose("expert overlap", "false", "true"), "parallel.delay_weights="+choose("delay weights", "false", "true"))
	}
	if rapid.IntRange(0, 3).Draw(t, "in groups") == 0 {
		sets = append(sets, "parallel.data=2", "parallel.zero_group=2", "parallel.reduce_scatter="+choose("scatter sums", "true", "false"))
	}
	if rapid.IntRange(0, 3).Draw(t, "offload") == 0 {
		sets = append(sets, "train.offload_activations=1",
			"machine.host_link.bandwidth="+choose("host link", "30MB/s", "10GB/s"))
	}
	var lines []string
	for _, s := range sets {
		key, value, _ := strings.Cut(s, "=")
		if strings.IndexFunc(value, func(r rune) bool { return r < '0' || r > '9' }) >= 0 && value != "true" && value != "false" {
			value = fmt.Sprintf("%q", value)
		}
		lines = append(lines, key+" = "+value)
	}
	c, err := configs.Parse("x.toml", []byte(strings.Join(lines, "\n")))
	require.NoError(t, err)
	devices := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "devices")
	q := plans.Query{Devices: devices, Trainer: plans.Any, Margin: 0.1, Points: true, Rows: rapid.IntRange(1, 5).Draw(t, "rows")}
	for _, v := range asked(sets[1] == "model.family=mixtral") {
		if rapid.Bool().Draw(t, v.Key+" asked") && (v.Key != "train.recompute" || !c.Train.TwoPass()) {
			q.Vary = append(q.Vary, v)
		}
	}
	if rapid.Bool().Draw(t, "one schedule") {
		q.Schedules = slices.Compact([]string{"ddp", choose("schedule", schedules.Names()...)})
	}
	return c, q
}

func stackNames() (names []string) {
	for _, s := range configs.Stacks() {
		names = append(names, s.Name)
	}
	return names
}

// thin restricts a query until it has few plans, and gives every device so much memory
// that some fit.
func thin(t *rapid.T, c *configs.Config, q plans.Query) (*configs.Config, plans.Query) {
	space, err := plans.NewSpace(c, plans.Query{Devices: q.Devices, Trainer: q.Trainer, Margin: q.Margin, Schedules: q.Schedules, Vary: q.Vary})
	require.NoError(t, err)
	parts := (len(space.Plans) + mostPlans - 1) / mostPlans
	q.Shard = rankings.Shard{Number: rapid.IntRange(1, max(1, parts)).Draw(t, "part"), Of: max(1, parts)}
	if share := rapid.SampledFrom([]float64{0, 0.5, 0.8, 1.5}).Draw(t, "memory"); share > 0 && len(space.Plans) > 0 {
		one := rapid.IntRange(0, len(space.Plans)-1).Draw(t, "of")
		if p := estimatedPlan(c, space.Plans[one].Set()); p != nil {
			key := rapid.SampledFrom([]string{"machine.compute.memory", "machine.compute.memory", "machine.memory_per_node"}).Draw(t, "of what")
			c, err = c.With(fmt.Sprintf("%s=%dB", key, 1+int64(share*float64(p.Result.PeakMemory()))))
			require.NoError(t, err)
		}
	}
	return c, q
}

// setsOf returns a function that finds all settings of a point.
func setsOf(t *rapid.T, c *configs.Config, q plans.Query) func(rankings.PlanPoint) []string {
	space, err := plans.NewSpace(c, q)
	require.NoError(t, err)
	sets := map[string][]string{}
	for _, p := range space.Plans {
		sets[fmt.Sprint(p.PlanShape, p.Extra)] = p.Set()
	}
	require.Len(t, sets, len(space.Plans))
	return func(p rankings.PlanPoint) []string {
		extra := slices.DeleteFunc(slices.Clone(p.Set), func(set string) bool {
			key, _, _ := strings.Cut(set, "=")
			return slices.Contains(plans.Keys(), key)
		})
		set, known := sets[fmt.Sprint(p.Plan, extra)]
		require.True(t, known)
		return set
	}
}

// estimatedPlan simulates a plan as any configuration; nil where that is refused.
func estimatedPlan(c *configs.Config, set []string) *psim.Prediction {
	one, err := c.With(set...)
	if err != nil {
		return nil
	}
	p, err := psim.Predict(context.Background(), one)
	if err != nil {
		return nil
	}
	return p
}

// Bounds are no longer than steps, what is discarded does not fit or is no better, what
// is simulated in the search is what psim run says, and the best plans are those of
// all simulations. There are 20 spaces, or as many as -rapid.checks says: make laws draws 2,000.
func TestSearchPlansLaws(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if usual := checks.DefValue; checks.Value.String() == usual {
		require.NoError(t, checks.Value.Set("20"))
		t.Cleanup(func() { require.NoError(t, checks.Value.Set(usual)) })
	}
	rapid.Check(t, func(t *rapid.T) {
		c, q := drawSpace(t)
		c, q = thin(t, c, q)
		found, err := plans.Search(context.Background(), c, q, nil)
		require.NoError(t, err)
		require.Zero(t, found.Gap)
		sets, all := setsOf(t, c, q), map[string]*psim.Prediction{}
		var best []rankings.PlanPoint
		for _, point := range found.Points {
			point.Set = sets(point)
			p := estimatedPlan(c, point.Set)
			all[strings.Join(point.Set, " ")] = p
			checkPoint(t, point, p)
			if p != nil && p.Result.Fits() && point.Pruned != plans.Same {
				point.StepTime = p.Summary.StepTime
				best = append(best, point)
			}
		}
		slices.SortFunc(best, func(a, b rankings.PlanPoint) int {
			return cmp.Or(cmp.Compare(a.StepTime, b.StepTime), slices.Compare(a.Set, b.Set))
		})
		best = best[:min(q.Rows, len(best))]
		checkEnds(t, c, q, all)
		brief := q
		brief.Points = false
		alone, err := plans.Search(context.Background(), c, brief, nil)
		require.NoError(t, err)
		require.Equal(t, written(t, found), written(t, alone), "a search that asks for no points ends simulations early")
		require.Len(t, found.Plans, len(best))
		for i, p := range found.Plans {
			require.Equal(t, best[i].Set, p.Set)
			require.Equal(t, all[strings.Join(p.Set, " ")].Result, p.Result)
		}
	})
}

// written is the JSON of an answer.
func written(t *rapid.T, found *plans.Answer) string {
	var out bytes.Buffer
	require.NoError(t, found.WriteJSON(&out))
	return out.String()
}

// checkEnds checks that no outline of a plan takes longer than its step or more memory, and that simulations end early if their step
// is longer than a horizon, and only then.
func checkEnds(t *rapid.T, c *configs.Config, q plans.Query, all map[string]*psim.Prediction) {
	space, err := plans.NewSpace(c, q)
	require.NoError(t, err)
	for i := range space.Plans {
		p := &space.Plans[i]
		one := all[strings.Join(p.Set(), " ")]
		if one == nil {
			continue
		}
		step := one.Summary.StepTime
		bound, tooLarge := plans.Outlined(p)
		require.LessOrEqual(t, bound, step, "the outline of %s", p.Set())
		require.False(t, tooLarge && one.Result.Fits(), "%s fits", p.Set())
		within, possible := plans.Within(p, step)
		require.True(t, within || !possible, p.Set())
		within, possible = plans.Within(p, step-1)
		require.False(t, within && possible, p.Set())
	}
}

// checkPoint compares what a search says of a plan with its simulation, nil where that
// is refused.
func checkPoint(t *rapid.T, point rankings.PlanPoint, p *psim.Prediction) {
	set := strings.Join(point.Set, " ")
	if p == nil {
		require.NotEmpty(t, point.Pruned, set)
		return
	}
	require.LessOrEqual(t, point.Work, point.Bound, set)
	require.LessOrEqual(t, point.Bound, p.Summary.StepTime, "the bound of %s", set)
	switch point.Pruned {
	case plans.Parameters, plans.Activations:
		require.False(t, p.Result.Fits(), "%s: %s", set, point.Pruned)
	case plans.Impossible:
		t.Fatalf("%s is possible", set)
	case "":
		require.Equal(t, p.Summary.StepTime, point.StepTime, set)
		require.Equal(t, p.Result.PeakMemory(), point.PeakMemory, set)
		require.Equal(t, p.Result.Fits(), point.Fits, set)
	}
}
