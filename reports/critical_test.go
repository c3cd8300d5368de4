package reports

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules"
)

func TestCriticalPath(t *testing.T) {
	g := &schedules.Graph{Shape: schedules.Shape{Ranks: 1, Microbatches: 1}}
	trace := &schedules.Trace{Graph: g}
	for i, k := range []schedules.Kind{schedules.Forward, schedules.AllReduce, schedules.Backward, schedules.Optimizer} {
		g.Tasks = append(g.Tasks, schedules.Task{Kind: k})
		start := 10e9 * float64(i) // of which the task takes 6, 7, 8, 9 seconds
		trace.Spans = append(trace.Spans, schedules.Span{Start: time.Duration(start), End: time.Duration(start + 6e9 + 1e9*float64(i))})
	}
	c := NewCriticalPath(trace, []int32{0, 1, 2, 3})
	require.Equal(t, &CriticalPath{Compute: 14, Communication: 7, Optimizer: 9, Latency: 9}, c)
	require.Equal(t, "35.9 % compute, 17.9 % communication, 23.1 % latency, 23.1 % optimizer", c.text(39))
	trace.Inner = []schedules.Inner{{Communication: 9e9, Exposed: 2e9}, {}, {Exposed: 1e9}, {}}
	c = NewCriticalPath(trace, []int32{0, 1, 2, 3})
	require.Equal(t, &CriticalPath{Compute: 11, Communication: 10, Optimizer: 9, Latency: 9}, c)
	require.Empty(t, c.text(0))
	require.Empty(t, (*CriticalPath)(nil).text(39))
}
