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
		trace := &graph.Trace{Graph: g, Spans: make([]graph.Span, len(g.Tasks))}
		for i, task := range g.Tasks {
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
	costs, err := costmodel.Profiled(base, w.Plan(), traces, nil)
	require.NoError(t, err)
	for i := range g.Tasks {
		task := &g.Tasks[i]
		got, was := costs.Task(task), base.Task(task)
		require.Equal(t, traces[0].Spans[i].Duration(), got.Busy, task.String())
		require.Zero(t, got.Delay)
		require.Equal(t, was.BytesAtStart, got.BytesAtStart)
		require.Equal(t, was.BytesAtEnd, got.BytesAtEnd)
	}
	_, err = costmodel.Profiled(base, w.Plan(), nil, nil)
	require.EqualError(t, err, "there is no trace to take times from")
}
