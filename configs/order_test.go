package configs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/configs"
	"psim/schedules/graph"
	"psim/sim"
)

// searched is small, with both halves of the backward and a schedule to be found.
const searched = `
[schedule]
name = "auto"
stages = 3
microbatches = 6

[times]
forward = "10ms"
backward_input = "10ms"
backward_weight = "10ms"

[memory]
activation = "1GB"
limit = "3GB"
`

// With the memory of P microbatches the span is P−1 passes above the ideal, with
// that of 2P it is ideal.
func TestAutoTimes(t *testing.T) {
	experiment, s := run(t, parse(t, searched))
	require.Equal(t, 200*time.Millisecond, experiment.Search.Span)
	require.Equal(t, experiment.Search.Span, experiment.Search.LowerBound)
	require.InDelta(t, 0.1, s.Bubble.Span, 1e-12)
	require.Equal(t, "auto", experiment.Graph.Name)

	experiment, s = run(t, parse(t, searched, "memory.limit=6GB"))
	require.Equal(t, 180*time.Millisecond, experiment.Search.Span)
	require.Zero(t, s.Bubble.Span)

	experiment, _ = run(t, parse(t, searched, "schedule.stages=1"))
	require.Equal(t, 180*time.Millisecond, experiment.Search.Makespan)
}

// Less work may end later where an order is found by search: with weight gradients of 8 ms
// on both ranks it finds one that takes 2 ms longer than with 8 and 10.
func TestAutoAnomaly(t *testing.T) {
	step := func(weights string) time.Duration {
		_, s := run(t, parse(t, searched, "schedule.stages=2", `times.forward=["11ms", "15ms"]`, `times.backward_input="13ms"`,
			"times.backward_weight="+weights, `times.p2p="7ms"`, "memory.limit=2GB"))
		return s.StepTime
	}
	require.Less(t, step(`["8ms", "10ms"]`), step(`["8ms", "8ms"]`))
}

// Over a V, the memory of 2P stages leaves no bubble, and less of it some.
func TestAutoVTimes(t *testing.T) {
	experiment, s := run(t, parse(t, searched, "schedule.name=auto-v", "memory.limit=6GB"))
	require.Equal(t, 360*time.Millisecond, experiment.Search.Span)
	require.Equal(t, experiment.Search.Span, experiment.Search.LowerBound)
	require.Zero(t, s.Bubble.Span)
	require.Equal(t, "auto-v", experiment.Graph.Name)
	require.Equal(t, []int32{0, 1, 2, 2, 1, 0}, experiment.Graph.Placement.First)
	require.Equal(t, 2, experiment.Graph.Shape.Virtual)

	less, s := run(t, parse(t, searched, "schedule.name=auto-v"))
	require.Greater(t, less.Search.Span, experiment.Search.Span)
	require.LessOrEqual(t, less.Search.LowerBound, less.Search.Span)
	for r, rank := range s.Ranks {
		require.LessOrEqual(t, rank.PeakMemory, less.Capacity[r])
	}

	same, _ := run(t, parse(t, searched, "schedule.name=auto-v", "schedule.virtual_stages=2"))
	require.Equal(t, less.Search, same.Search)
}

// What the search says of an order is what a simulation of the plan says, and the
// limit holds at every moment.
func TestAutoIsSimulated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := func(key string, from, to int, unit string) string {
			return key + "=" + rapid.StringMatching(`[`+digits(from, to)+`]`).Draw(t, key) + unit
		}
		name := rapid.SampledFrom([]string{"auto", "auto-v"}).Draw(t, "name")
		c, err := configs.Parse("x.toml", []byte(searched), "schedule.name="+name,
			set("schedule.stages", 1, 5, ""), set("schedule.microbatches", 1, 9, ""), set("times.p2p", 0, 5, "ms"),
			set("times.forward", 1, 9, "ms"), set("times.backward_weight", 1, 9, "ms"),
			"memory.activation=2GB", set("memory.freed_by_input_gradient", 0, 2, "GB"), set("memory.limit", 4, 9, "GB"))
		require.NoError(t, err)
		experiment, err := c.Build()
		require.NoError(t, err)
		trace, err := sim.Run(experiment.Graph, experiment.Costs)
		require.NoError(t, err)
		s := graph.Summarize(trace)
		require.Equal(t, s.Makespan, experiment.Search.Makespan)
		var busy time.Duration
		for r, rank := range s.Ranks {
			busy += rank.Compute
			require.LessOrEqual(t, rank.PeakMemory, experiment.Capacity[r])
		}
		span := float64(experiment.Search.Span) * float64(len(s.Ranks))
		require.InDelta(t, 1-float64(busy)/span, s.Bubble.Span, 1e-9)
	})
}

// digits lists the digits from one to another.
func digits(from, to int) string { return "0123456789"[from : to+1] }

// A network's order is found under the memory that its parameters leave, and is
// no worse than 1F1B's.
func TestAutoModel(t *testing.T) {
	one, s := run(t, parse(t, networkKeys, "schedule.name=1f1b"))
	require.Nil(t, one.Search)
	experiment, auto := run(t, parse(t, networkKeys, "schedule.name=auto"))
	require.Less(t, auto.Bubble.Span, s.Bubble.Span)
	require.LessOrEqual(t, experiment.Search.LowerBound, experiment.Search.Span)

	v, folded := run(t, parse(t, networkKeys, "schedule.name=auto-v"))
	require.Less(t, folded.Bubble.Span, s.Bubble.Span)
	require.LessOrEqual(t, v.Search.LowerBound, v.Search.Span)

	// Room that is reserved is not used: with almost all of it, one microbatch
	// after another.
	c := parse(t, networkKeys, "schedule.name=auto")
	tight, err := c.BuildFor(context.Background(), configs.BuildOptions{Reserve: []int64{1 << 60, 1 << 60}})
	require.NoError(t, err)
	trace, err := sim.Run(tight.Graph, tight.Costs)
	require.NoError(t, err)
	for _, r := range graph.Summarize(trace).Ranks {
		require.Equal(t, 1, r.PeakInFlight)
	}
}

func TestAutoErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		set  string
		want string
	}{
		{searched, "schedule.virtual_stages=2", "virtual_stages = 2: auto holds one stage per rank"},
		{searched, "schedule.synchronous=true", "without barriers"},
		{searched, "schedule.placement=[0, 2, 1]", "placement: auto cannot run stages on the ranks [0 2 1]"},
		{searched, "memory.limit=999MB", `memory.limit = "999MB": 1.00 GB of activations for one microbatch do not fit`},
		{searched, "schedule.microbatches=2000000", "more than the 4194304 tasks that an order is searched for"},
		{searched, "memory.limit=1999MB;schedule.name=auto-v", `memory.limit = "1999MB": 2.00 GB of activations for one microbatch do not fit`},
		{searched, "schedule.placement=[0, 1, 2, 0, 1, 2];schedule.name=auto-v", "two stages per rank, in a V"},
		{searched, "schedule.virtual_stages=3;schedule.name=auto-v", "auto-v holds 2 stages per rank"},
		{searched, "schedule.synchronous=true;schedule.name=auto-v", "auto-v searches for an order without barriers"},
		{small, "schedule.name=auto", "backward_input is missing"},
		{networkKeys, "parallel.zero=3", "zero = 3"},
	} {
		sets := strings.Split(c.set, ";")
		if c.text == networkKeys {
			sets = append(sets, "schedule.name=auto")
		}
		err := failure(configs.Parse("x.toml", []byte(c.text), sets...))
		require.ErrorContains(t, err, c.want, c.set)
	}
}
