package graph_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/graph"
)

// late gives a trace made by hand the times at which its tasks were ready, so
// much before their starts.
func late(trace *graph.Trace, by ...time.Duration) *graph.Trace {
	for i, span := range trace.Spans {
		trace.Ready = append(trace.Ready, span.Start-by[i])
	}
	return trace
}

// time        0123456789
// compute     .FFF..BBB.
// ready       f....b....
// message     ....s.....   was ready at 3: messages are no dispatch
// optimizer   .........O   was ready at 7, while the rank was busy
func TestDispatch(t *testing.T) {
	trace := late(hand(1,
		row{graph.Forward, 0, 1, 4}, row{graph.SendForward, 0, 4, 5},
		row{graph.Backward, 0, 6, 9}, row{graph.Optimizer, 0, 9, 10}), 1, 1, 1, 2)
	s := graph.Summarize(trace).Ranks[0]
	require.EqualValues(t, 2, s.Idle)
	require.EqualValues(t, 2, s.Dispatch)
	require.Zero(t, s.Waiting)

	trace.Ready[2] = 6 // the backward waited for its input instead
	s = graph.Summarize(trace).Ranks[0]
	require.EqualValues(t, 1, s.Dispatch)
	require.EqualValues(t, 1, s.Waiting)

	trace.Ready = nil
	s = graph.Summarize(trace).Ranks[0]
	require.Zero(t, s.Dispatch)
	require.Equal(t, s.Idle, s.Waiting)
}

// Dispatch agrees with a count instant by instant, and with waiting makes up
// the idle time; nothing else depends on when tasks were ready.
func TestDispatchByInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []row
		var by []time.Duration
		for range rapid.IntRange(1, 12).Draw(t, "tasks") {
			start := rapid.IntRange(0, 20).Draw(t, "start")
			rows = append(rows, row{
				kind: rapid.SampledFrom([]graph.Kind{graph.Forward, graph.Backward, graph.SendForward, graph.Optimizer}).Draw(t, "kind"),
				rank: rapid.Int32Range(0, 1).Draw(t, "rank"), start: time.Duration(start),
				end: time.Duration(start + rapid.IntRange(0, 6).Draw(t, "length")),
			})
			by = append(by, time.Duration(rapid.IntRange(0, start).Draw(t, "late")))
		}
		trace := late(hand(2, rows...), by...)
		s := graph.Summarize(trace)
		trace.Ready = nil
		plain := graph.Summarize(trace)
		for r, rank := range s.Ranks {
			var dispatch time.Duration
			for now := range s.StepTime {
				busy, starting := false, false
				for i, row := range rows {
					if row.rank != int32(r) {
						continue
					}
					busy = busy || row.start <= now && now < row.end
					starting = starting || !row.kind.Message() && row.start-by[i] <= now && now < row.start
				}
				if starting && !busy {
					dispatch++
				}
			}
			require.Equal(t, dispatch, rank.Dispatch)
			require.Equal(t, rank.Idle, rank.Dispatch+rank.Waiting)
			rank.Dispatch, rank.Waiting = 0, rank.Idle
			require.Equal(t, plain.Ranks[r], rank)
		}
	})
}
