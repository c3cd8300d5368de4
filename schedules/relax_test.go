package schedules_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules"
)

// unit is the cost model F1 B2 I1 W1, everything else free.
func unit(t *schedules.Task) time.Duration {
	switch t.Kind {
	case schedules.Forward, schedules.InputGradient, schedules.WeightGradient:
		return 1
	case schedules.Backward:
		return 2
	}
	return 0
}

// relax runs a graph the slow way: it raises the start of every task until
// every dependency and the task before it on its stream end earlier. Fused
// collectives are taken for tasks of one rank.
func relax(t tb, g *schedules.Graph, cost func(*schedules.Task) time.Duration) *schedules.Trace {
	t.Helper()
	spans := make([]schedules.Span, len(g.Tasks))
	for round := 0; ; round++ {
		require.LessOrEqual(t, round, len(g.Tasks), "deadlock")
		moved := false
		free := make([]time.Duration, len(g.Streams))
		for i := range g.Tasks {
			task := &g.Tasks[i]
			start := free[task.Stream]
			for _, d := range g.Deps(int32(i)) {
				start = max(start, spans[d].End)
			}
			span := schedules.Span{Start: start, End: start + cost(task)}
			moved = moved || span != spans[i]
			spans[i], free[task.Stream] = span, span.End
		}
		if !moved {
			return &schedules.Trace{Graph: g, Spans: spans}
		}
	}
}
