package sim_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// launching adds a cost of launching to every computing task.
func launching(costs graph.Costs, launch, lead time.Duration, host *graph.Host) graph.Costs {
	price := costs.Task
	costs.Host = host
	costs.Task = func(t *graph.Task) graph.Cost {
		c := price(t)
		if t.Kind.Compute() {
			c.Launch, c.LaunchLead = launch, lead
		}
		return c
	}
	return costs
}

func ownThreads(g *graph.Graph) []int32 { return graph.InOrder(g.Ranks()).First }

func oneThread(g *graph.Graph) []int32 { return make([]int32, g.Ranks()) }

// One rank, F then B: what a thread adds to 10 and 20, by how long a launch
// takes.
func TestLaunchOfOneRank(t *testing.T) {
	g := build(t, "gpipe", 1, 1)
	for _, c := range []struct {
		launch, lead time.Duration
		waits        bool
		want         [4]time.Duration
	}{
		{launch: 4, lead: 1, want: [4]time.Duration{1, 11, 11, 31}},              // the thread runs ahead
		{launch: 4, lead: 1, waits: true, want: [4]time.Duration{1, 11, 12, 32}}, // it has waited for F
		{launch: 15, lead: 6, want: [4]time.Duration{6, 16, 21, 41}},             // B's launch began at 15
		{launch: 50, lead: 40, want: [4]time.Duration{40, 50, 90, 110}},          // both devices starve
		{lead: 1, waits: true, want: [4]time.Duration{1, 11, 12, 32}},
	} {
		host := &graph.Host{Thread: ownThreads(g), Waits: c.waits}
		trace := run(t, g, launching(uniform(10, 20, 0), c.launch, c.lead, host))
		f, b := trace.Span(0), trace.Span(1)
		require.Equal(t, c.want, [4]time.Duration{f.Start, f.End, b.Start, b.End}, "%+v", c)
		require.Equal(t, []time.Duration{0, trace.Span(0).End}, []time.Duration{trace.ReadyAt(0), trace.ReadyAt(1)})
	}
}

// Threads that wait launch a task when it is ready, whether or not it is known who
// they are.
func TestLaunchWithoutThreads(t *testing.T) {
	g := build(t, "gpipe", 2, 3)
	spans := func(threads []int32) []graph.Span {
		return ordertest.Spans(run(t, g, launching(uniform(10, 20, 0), 1, 1, &graph.Host{Thread: threads, Waits: true})))
	}
	require.Equal(t, spans(ownThreads(g)), spans(nil))
}

// One thread that drives both devices of a GPipe launches by clock cycle, as
// torchgpipe's loop does; two threads launch what their device runs. Launching
// takes so long that tasks start in the order in which they are launched.
func TestLaunchOrder(t *testing.T) {
	g := build(t, "gpipe", 2, 3)
	launched := func(threads ...int32) string {
		trace := run(t, g, launching(uniform(1, 1, 0), 1000, 1000, &graph.Host{Thread: threads}))
		byThread := make([][]int32, 2)
		for i := range int32(g.Len()) {
			if task := new(g.Task(i)); task.Kind.Compute() {
				byThread[threads[task.Rank]] = append(byThread[threads[task.Rank]], i)
			}
		}
		text := ""
		for _, tasks := range byThread {
			slices.SortFunc(tasks, func(a, b int32) int { return cmp.Compare(trace.Span(a).Start, trace.Span(b).Start) })
			for _, i := range tasks {
				text += g.Task(i).String() + " "
			}
			text += "| "
		}
		return text
	}
	require.Equal(t, "0F0 0F1 1F0 0F2 1F1 1F2 1B0 0B0 1B1 0B1 1B2 0B2 | | ", launched(0, 0))
	require.Equal(t, "0F0 0F1 0F2 0B0 0B1 0B2 | 1F0 1F1 1F2 1B0 1B1 1B2 | ", launched(0, 1))
}

// One thread launches for a slow and a fast rank that do not depend on each other.
// A queue that is full of the slow one's tasks keeps it from launching the fast
// one's.
func TestLaunchQueue(t *testing.T) {
	g := buildShape(t, "gpipe", graph.Shape{Ranks: 1, Microbatches: 2, Replicas: 2})
	price := func(task *graph.Task) graph.Cost {
		return graph.Cost{Busy: time.Duration(10 - 9*task.Rank)}
	}
	last := func(queue int) time.Duration { // of the fast rank
		host := &graph.Host{Thread: oneThread(g), Queue: queue}
		trace := run(t, g, launching(graph.Costs{Task: price}, 1, 1, host))
		var end time.Duration
		for i, task := range g.Tasks() {
			if task.Rank == 1 {
				end = max(end, trace.Span(i).End)
			}
		}
		return end
	}
	require.EqualValues(t, 8+1, last(0), "eight launches")
	require.EqualValues(t, 8+1, last(3))
	require.EqualValues(t, 11+1+1+1, last(2), "the slow rank's fourth task waits for its second to start")
	require.EqualValues(t, 21+1+1+1, last(1), "for its third")
}

// If launching is what takes longest, a step of devices with a thread of their
// own is that many times faster than of devices that share one.
func TestSharedThreadSerialises(t *testing.T) {
	g := build(t, "gpipe", 2, 4)
	end := func(threads []int32) time.Duration {
		host := &graph.Host{Thread: threads}
		return run(t, g, launching(uniform(1, 2, 0), 58, 56, host)).End()
	}
	require.EqualValues(t, 2*4*2*58, end(oneThread(g)), "every launch of both ranks")
	require.Less(t, end(ownThreads(g)), time.Duration(10*58+10))
}

// drawHost draws threads for the ranks of a graph and how they work.
func drawHost(t *rapid.T, g *graph.Graph) *graph.Host {
	threads := make([]int32, g.Ranks())
	for r := range threads {
		threads[r] = rapid.Int32Range(0, 1).Draw(t, "thread")
	}
	return &graph.Host{
		Thread: threads, Queue: rapid.IntRange(0, 3).Draw(t, "queue"),
		Waits: rapid.Bool().Draw(t, "waits"),
	}
}

func TestLaunchingLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 0, false) // without links: see TestMoreCostIsNeverFaster
		g, costs := r.Graph, r.costs()
		free := run(t, g, costs)
		host := drawHost(t, g)
		if !host.Waits && host.Queue == 0 { // it never stops for a device
			require.Equal(t, ordertest.Spans(free), ordertest.Spans(run(t, g, launching(costs, 0, 0, host))), "launching for nothing changes nothing")
		}

		launch, lead := time.Duration(rapid.IntRange(0, 9).Draw(t, "launch")), time.Duration(rapid.IntRange(0, 9).Draw(t, "lead"))
		trace := run(t, g, launching(costs, launch, lead, host))
		slower := run(t, g, launching(costs, launch+1, lead+1, host))
		for i := range int32(g.Len()) {
			require.LessOrEqual(t, free.Span(i).End, trace.Span(i).End)
			require.LessOrEqual(t, trace.Span(i).End, slower.Span(i).End)
			require.Equal(t, free.Span(i).Duration(), trace.Span(i).Duration(), "a device works as long as before")
			require.LessOrEqual(t, trace.ReadyAt(i), trace.Span(i).Start)
		}
		launches := map[int32]time.Duration{} // by rank: so far
		for i := range int32(g.Len()) {
			if r := g.Task(i).Rank; g.Task(i).Kind.Compute() {
				require.GreaterOrEqual(t, trace.End(), launches[r]+lead, "a rank's launches follow one another")
				launches[r] += launch
			}
		}
	})
}
