package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// One thread that drives both devices of a GPipe launches by clock cycle, as
// torchgpipe's loop does; two threads launch what their device runs.
func TestLaunchOrder(t *testing.T) {
	schedule, err := schedules.Find("gpipe")
	require.NoError(t, err)
	shape := graph.Shape{Ranks: 2, Virtual: 1, Microbatches: 3, Replicas: 1}
	ranks := graph.InOrder(2).First
	order, err := schedule.Order(shape, ranks)
	require.NoError(t, err)
	g, err := wiring.Pipeline{Order: order, Shape: shape, Placement: graph.Placement{First: ranks}}.Graph()
	require.NoError(t, err)

	launched := func(threads ...int32) string {
		before := graph.LaunchOrder(g, threads)
		after := map[int32]int32{}
		var first []int32
		for i := range g.Tasks {
			switch b := before[i]; {
			case b != graph.None:
				require.NotContains(t, after, b)
				after[b] = int32(i)
			case g.Tasks[i].Kind.Compute():
				first = append(first, int32(i))
			}
		}
		text := ""
		for _, i := range first {
			for ok := true; ok; i, ok = after[i] {
				text += g.Tasks[i].String() + " "
			}
			text += "| "
		}
		return text
	}
	require.Equal(t, "0F0 0F1 1F0 0F2 1F1 1F2 1B0 0B0 1B1 0B1 1B2 0B2 | ", launched(0, 0))
	require.Equal(t, "0F0 0F1 0F2 0B0 0B1 0B2 | 1F0 1F1 1F2 1B0 1B1 1B2 | ", launched(0, 1))
}
