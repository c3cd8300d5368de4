package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/schedules/graph"
)

// Tasks of a kind are priced at their median, whatever each of them took, and
// memory stays as it was.
func TestProfiled(t *testing.T) {
	w := workload(t, mlp(t, 4, 3), []int32{0, 1}, 2, 2, 2, 1)
	g := graphOf(t, w, orderOf(t, "1f1b", w))
	base := costsOf(t, w, machine(), g)
	var traces []*graph.Trace
	for n := range 3 {
		trace := &graph.Trace{Graph: g, Spans: make([]graph.Span, g.Len())}
		for i, task := range g.Tasks() {
			took := time.Duration(task.Kind)*time.Millisecond + time.Duration(task.Stage)*time.Microsecond
			if task.Microbatch == 3 {
				took /= 2
			}
			if n == 1 {
				took *= 10 // an outlier
			}
			trace.Spans[i] = graph.Span{Start: time.Second, End: time.Second + took}
		}
		traces = append(traces, trace)
	}
	costs, err := costmodel.Profiled(base, w.Staged(), traces, nil)
	require.NoError(t, err)
	for i := range int32(g.Len()) {
		task := new(g.Task(i))
		got, was := costs.Task(task), base.Task(task)
		require.Equal(t, traces[0].Span(i).Duration(), got.Busy, task.String())
		require.Zero(t, got.Delay)
		require.Equal(t, was.BytesAtStart, got.BytesAtStart)
		require.Equal(t, was.BytesAtEnd, got.BytesAtEnd)
	}
	_, err = costmodel.Profiled(base, w.Staged(), nil, nil)
	require.EqualError(t, err, "no trace to take times from")
}

// The last backward of replicas is cut at its buckets; its first slice is not priced as a whole backward.
func TestProfiledSlices(t *testing.T) {
	w := synced(workload(t, mlp(t, 4, 3), []int32{0}, 2, 2, 2), 20, true)
	w.Replicas = 2
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	base := costsOf(t, w, machine(), g)
	trace, slices := &graph.Trace{Graph: g, Spans: make([]graph.Span, g.Len())}, 0
	for i, task := range g.Tasks() {
		trace.Spans[i].End = base.Task(&task).Busy
		slices += int(task.Part)
	}
	require.Positive(t, slices)
	costs, err := costmodel.Profiled(base, w.Staged(), []*graph.Trace{trace}, nil)
	require.NoError(t, err)
	for i, task := range g.Tasks() {
		require.Equal(t, trace.Spans[i].End, costs.Task(&task).Busy, task.String())
	}
}

// together makes two traces of forwards on two ranks: alone, of 10 ms each, and in pairs,
// in which they take so long.
func together(paired ...time.Duration) (alone, pairs *graph.Trace) {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 2, Microbatches: len(paired)}}
	alone, pairs = &graph.Trace{Graph: g}, &graph.Trace{Graph: g}
	for rank := range int32(2) {
		g.AddStream(rank, "compute")
	}
	for m, took := range paired {
		for rank := range int32(2) {
			g.Add(graph.Task{Rank: rank, Stream: rank, Microbatch: int32(m), Peer: graph.None})
			start := time.Duration(2*m+int(rank)) * 10 * time.Millisecond
			alone.Spans = append(alone.Spans, graph.Span{Start: start, End: start + 10*time.Millisecond})
			pairs.Spans = append(pairs.Spans, graph.Span{Start: start - start%(20*time.Millisecond), End: start - start%(20*time.Millisecond) + took})
		}
	}
	return alone, pairs
}

// What takes 12.5 ms beside another that computes all the time, and 10 ms alone, is a
// quarter slower, and four of five parts of its time are its own. What takes turns is
// bounded by the cores, what noise makes faster is not slower, and one core is one core.
func TestCrowded(t *testing.T) {
	const ms = time.Millisecond
	f := &graph.Task{Kind: graph.Forward}
	for _, c := range []struct {
		took time.Duration
		want float64
	}{{12500 * time.Microsecond, 1.25}, {10 * ms, 1}, {9 * ms, 1}, {100 * ms, 2}} {
		alone, pairs := together(c.took, c.took)
		crowding := costmodel.Crowding{
			Cores: 2, Pinned: true, Alone: []*graph.Trace{alone}, Together: []*graph.Trace{pairs},
		}
		cores := costmodel.Crowded(graph.Costs{}, crowding).Cores
		require.InDelta(t, c.want, cores.Slower(f), 1e-9)
		require.Equal(t, 1.0, cores.Slower(&graph.Task{Kind: graph.AllReduce}))
		require.Equal(t, []any{2, true}, []any{cores.Number, cores.Pinned})
	}
	alone, disturbed := together(500*ms, 10*ms)
	_, steady := together(11*ms, 11*ms)
	list := []*graph.Trace{alone, alone, alone}
	together := []*graph.Trace{steady, disturbed, steady}
	cores := costmodel.Crowded(graph.Costs{}, costmodel.Crowding{Cores: 2, Alone: list, Together: together}).Cores
	require.InDelta(t, 1.1, cores.Slower(f), 1e-9, "the median of the steps")
	require.Equal(t, 1.0, costmodel.Crowded(graph.Costs{}, costmodel.Crowding{Cores: 1, Alone: list}).Cores.Slower(f))
	require.Nil(t, costmodel.Crowded(graph.Costs{}, costmodel.Crowding{Alone: list}).Cores)
}
