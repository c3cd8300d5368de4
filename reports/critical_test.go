package reports

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/results"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/sim"
)

func TestCriticalPath(t *testing.T) {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 1, Microbatches: 1}}
	trace := &graph.Trace{Graph: g}
	for i, k := range []graph.Kind{graph.Forward, graph.AllReduce, graph.Backward, graph.Optimizer} {
		g.Add(graph.Task{Kind: k})
		start := 10e9 * float64(i) // of which the task takes 6, 7, 8, 9 seconds
		trace.Spans = append(trace.Spans, graph.Span{Start: time.Duration(start), End: time.Duration(start + 6e9 + 1e9*float64(i))})
	}
	c := results.NewCriticalPath(trace, []int32{0, 1, 2, 3})
	require.Equal(t, &results.CriticalPath{Compute: 14, Communication: 7, Optimizer: 9, Latency: 9}, c)
	require.Equal(t, "35.9 % compute, 17.9 % communication, 23.1 % latency, 23.1 % optimizer", criticalPathText(c, 39))
	trace.Prices = []graph.Price{{Inner: &graph.Inner{Within: graph.Within{Communication: 9e9, Exposed: 2e9}}}, {}, {Inner: &graph.Inner{Within: graph.Within{Exposed: 1e9}}}, {}}
	c = results.NewCriticalPath(trace, []int32{0, 1, 2, 3})
	require.Equal(t, &results.CriticalPath{Compute: 11, Communication: 10, Optimizer: 9, Latency: 9}, c)
	require.Empty(t, criticalPathText(c, 0))
	require.Empty(t, criticalPathText((*results.CriticalPath)(nil), 39))
}

// With host threads, what a device waits for them is dispatch, every moment of the
// step counts once, and what is left for latency is what it was.
func TestCriticalPathDispatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"gpipe", "1f1b"}).Draw(t, "schedule")
		ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
		s, err := schedules.Find(name)
		require.NoError(t, err)
		p, err := s.Pipeline(s.Sized(graph.Shape{Ranks: ranks, Microbatches: rapid.IntRange(1, 5).Draw(t, "microbatches")}), nil)
		require.NoError(t, err)
		g, err := p.Graph()
		require.NoError(t, err)
		launch := time.Duration(rapid.IntRange(0, 20).Draw(t, "launch"))
		price := func(task *graph.Task) graph.Cost {
			if task.Kind.Compute() {
				return graph.Cost{Busy: 10, Launch: launch, LaunchLead: launch / 2}
			}
			return graph.Cost{Busy: 3}
		}
		threads := make([]int32, ranks)
		for r := range threads {
			threads[r] = rapid.Int32Range(0, 1).Draw(t, "thread")
		}
		host := &graph.Host{Thread: threads, Waits: rapid.Bool().Draw(t, "waits")}
		trace, err := sim.Run(g, graph.Costs{Task: price, Host: host})
		require.NoError(t, err)
		c := results.NewCriticalPath(trace, sim.CriticalPath(trace))
		for _, part := range []float64{c.Compute, c.Communication, c.Optimizer, c.Dispatch} {
			require.GreaterOrEqual(t, part, 0.0)
		}
		require.InDelta(t, trace.End().Seconds(), c.Compute+c.Communication+c.Dispatch+c.Latency, 1e-15)
		require.Zero(t, c.Latency, "nothing here has any")
		if launch > 1 {
			require.Positive(t, c.Dispatch, "the first task waits")
		}
		if launch == 0 && !host.Waits {
			require.Zero(t, c.Dispatch)
		}
	})
}
