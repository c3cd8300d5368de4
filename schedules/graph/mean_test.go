package graph_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// Of two steps of one rank, 10 and 20 long, one computes 6 and the other 12.
func TestMeanTimesByHand(t *testing.T) {
	step := func(scale time.Duration) graph.Summary {
		return graph.Summarize(hand(1, row{graph.Forward, 0, 0, 2 * scale}, row{graph.Backward, 0, 4 * scale, 8 * scale}, row{graph.Optimizer, 0, 9 * scale, 10 * scale}))
	}
	runs := []graph.Summary{step(1), step(2)}
	m := runs[0].MeanTimes(runs)
	require.EqualValues(t, 15, m.StepTime)
	require.EqualValues(t, 12, m.Makespan) // of 8 and 16
	rank := m.Ranks[0]
	require.Equal(t, []time.Duration{9, 2, 4}, []time.Duration{rank.Compute, rank.Optimizer, rank.Idle}) // 1.5 rounded up
	require.InDelta(t, 1-9.0/12, m.Bubble.Makespan, 1e-12)
	require.EqualValues(t, 10, runs[0].StepTime, "summaries stay as they were")
	require.EqualValues(t, 6, runs[0].Ranks[0].Compute)
}

// The parts of a step's time add up to it in the mean too, which lies between the
// shortest and the longest; the mean of equal runs is each of them.
func TestMeanTimesLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := ordertest.Graph(t, ordertest.Pipeline(t, "1f1b", 2, 3))
		var runs []graph.Summary
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			times := rapid.SliceOfN(rapid.IntRange(0, 50), 7, 7).Draw(t, "times")
			runs = append(runs, graph.Summarize(ordertest.Relax(t, g, func(task *graph.Task) time.Duration {
				return time.Duration(times[(5*int(task.Kind)+3*int(task.Stage)+int(task.Microbatch))%len(times)])
			})))
		}
		m := runs[0].MeanTimes(runs)
		low, high := runs[0].StepTime, runs[0].StepTime
		for _, s := range runs {
			low, high = min(low, s.StepTime), max(high, s.StepTime)
		}
		require.GreaterOrEqual(t, m.StepTime, low)
		require.LessOrEqual(t, m.StepTime, high)
		for _, r := range m.Ranks {
			require.InDelta(t, m.StepTime, r.Compute+r.ExposedCommunication+r.Optimizer+r.Idle, 3, "all rounded")
			require.Equal(t, r.Idle, r.Dispatch+r.Waiting)
		}
		require.Equal(t, runs[0], runs[0].MeanTimes(runs[:1]))
	})
}
