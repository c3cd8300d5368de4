package picture

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules/collective"
	"psim/schedules/graph"
)

// work is a trace of one rank that works through tasks of the given times,
// without a pause. Tasks of a kind are slices of one another.
func work(kinds []graph.Kind, times ...time.Duration) *graph.Trace {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 1, Microbatches: 1}}
	g.AddStream(0, "compute")
	trace := &graph.Trace{Graph: g}
	var now time.Duration
	for i, d := range times {
		g.Add(graph.Task{Kind: kinds[min(i, len(kinds)-1)], Part: uint16(i), Peer: graph.None})
		trace.Spans = append(trace.Spans, graph.Span{Start: now, End: now + d})
		now += d
	}
	return trace
}

func TestSlicesAreOneAction(t *testing.T) {
	trace := work([]graph.Kind{graph.Forward, graph.Backward}, 4, 2, 2, 2)
	g, bars := trace.Graph, collectBars(trace, []int{0}, 0, trace.End()).bars
	require.Len(t, bars[0][workLane], 4)
	joined := bars.actions(g, 0)[0][workLane]
	require.Equal(t, []bar{
		{graph.Span{Start: 0, End: 4}, graph.Forward, 0, false, false, 0}, {graph.Span{Start: 4, End: 10}, graph.Backward, 1, true, false, 0},
	}, joined)

	trace.Spans[3].Start++ // a gap
	bars = collectBars(trace, []int{0}, 0, trace.End()).bars
	require.Len(t, bars.actions(g, 0)[0][workLane], 3)
	require.Len(t, bars.actions(g, 1)[0][workLane], 2)
	g.Classes[3].Microbatch = 1
	require.Len(t, bars.actions(g, 1)[0][workLane], 3)
}

// TestDense checks that what takes most of the time decides whether tasks are
// wide enough to be drawn one by one.
func TestDense(t *testing.T) {
	repeat := func(n int, d time.Duration) []time.Duration {
		list := make([]time.Duration, n)
		for i := range list {
			list[i] = d
		}
		return list
	}
	const ms = time.Millisecond
	wide := append([]time.Duration{1000 * ms, 1000 * ms}, repeat(1900, ms)...)
	narrow := append([]time.Duration{1000 * ms, 1000 * ms}, repeat(2100, ms)...)
	for _, c := range []struct {
		times  []time.Duration
		slices bool
		dense  bool
	}{{wide, false, false}, {narrow, false, true}, {narrow, true, false}} {
		trace := work([]graph.Kind{graph.Forward}, c.times...)
		for i := range int32(trace.Graph.Len()) {
			if !c.slices {
				trace.Graph.Classes[i].Microbatch = int32(i)
			}
		}
		_, l, err := newTimeline("", []Panel{{Trace: trace}})
		require.NoError(t, err)
		require.Equal(t, c.dense, l.panels[0].dense)
		var b bytes.Buffer
		require.NoError(t, Gantt(&b, trace, GanttOptions{}))
		require.Equal(t, c.dense, bytes.Contains(b.Bytes(), []byte("letters stand for shares of time")))
	}
}

func TestSmallSharesAreSeen(t *testing.T) {
	sum := shares{graph.Forward: 0.01, graph.Backward: 0.4, graph.Optimizer: 1e-12}
	blocks := stack(sum, 0, 3, 0.1)
	require.Len(t, blocks, 2)
	require.Equal(t, 0.1, blocks[0].top)
	require.Equal(t, 0.5, blocks[1].top)
	sum[graph.Backward] = 0.99
	blocks = stack(sum, 0, 3, 0.1)
	require.Equal(t, 1.0, blocks[1].top)
	require.InDelta(t, 0.1, blocks[0].top, 0.01)
}

// TestPhases checks the colours of a ring against the steps that it takes:
// those of a read trace, which has no dependencies, as well.
func TestPhases(t *testing.T) {
	for _, convention := range collective.Conventions() {
		g, err := collective.Call{Collective: collective.RingAllReduce, Ranks: 5, Length: 5, Convention: convention.Name}.Graph()
		require.NoError(t, err)
		phase, sent := phases(g), make([]int, 5)
		for i := range int32(g.Len()) {
			if task := new(g.Task(i)); task.Kind == graph.Send {
				want := graph.ReduceScatter
				if sent[task.Rank] >= 4 {
					want = graph.AllGather
				}
				require.Equal(t, want, phase[int32(i)])
				sent[task.Rank]++
			}
		}
		require.Len(t, phase, 5*8)
	}
	lost := &graph.Graph{}
	lost.Add(graph.Task{Kind: graph.Send, Peer: graph.None})
	require.Empty(t, phases(lost))

	// What one rank alone takes in is not gathered.
	one := &graph.Graph{Shape: graph.Shape{Ranks: 2}}
	one.Add(graph.Task{Kind: graph.Send, Peer: 1})
	one.Add(graph.Task{Kind: graph.Copy, Rank: 1}, 0)
	require.Empty(t, phases(one))
}

func TestRankName(t *testing.T) {
	name := func(s graph.Shape, rows, rank int) string {
		p := timelinePanel{Panel: Panel{Trace: &graph.Trace{Graph: &graph.Graph{Shape: s}}}}
		p.bars = make(rankBars, rows)
		return p.rankName(rank)
	}
	require.Equal(t, "rank 5", name(graph.Shape{Ranks: 8}, 8, 5))
	require.Equal(t, "rank 5", name(graph.Shape{Ranks: 1, Replicas: 8}, 8, 5))
	require.Equal(t, "rank 5 · replica 1", name(graph.Shape{Ranks: 4, Replicas: 2}, 8, 5))
	require.Equal(t, "5", name(graph.Shape{Ranks: 32}, 32, 5))
	require.Equal(t, "5 · 1", name(graph.Shape{Ranks: 4, Replicas: 8}, 32, 5))
}

func TestTitle(t *testing.T) {
	trace := work([]graph.Kind{graph.Forward}, 10*time.Millisecond)
	trace.Graph.Name = "gpipe"
	require.Equal(t, "GPipe\nstep 10.0 ms  ·  0.0 % not computing", graphTitle(trace))
	trace.Graph.Shape.Ranks = 2
	require.Equal(t, "GPipe, 2 stages × 1 microbatch\nstep 10.0 ms  ·  bubble 50.0 %", graphTitle(trace))
	trace = work([]graph.Kind{graph.Send}, 2800*time.Millisecond)
	trace.Graph.Name = "ring-allreduce"
	trace.Graph.Shape.Ranks = 8
	require.Equal(t, "Ring all-reduce, 8 ranks\n2.80 s", graphTitle(trace))
}
