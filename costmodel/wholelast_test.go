package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// A last stage that takes all microbatches at once takes what one microbatch of
// their size does, and its thread as long to launch it; other stages are as before.
func TestWholeLastPrice(t *testing.T) {
	host := machine()
	host.Host = costmodel.HostTimes{Operation: 3000}
	price := func(whole bool, samples ...int64) (busy, launch map[int32]time.Duration) {
		w := workload(t, smallGPT(t), []int32{0, 1, 0}, samples...)
		w.WholeLast = whole
		g, err := wiring.Pipeline{
			Shape: graph.Shape{Ranks: 2, Microbatches: len(samples)}, Placement: w.Placement, Samples: samples,
			Order: gpipeOrder(t, len(samples), w.Placement.First), Boundaries: w.Staged().Boundaries(), WholeLast: whole,
		}.Graph()
		require.NoError(t, err)
		costs, err := costmodel.StepCosts(host, w.Staged(), g)
		require.NoError(t, err)
		busy, launch = map[int32]time.Duration{}, map[int32]time.Duration{}
		for i := range int32(g.Len()) {
			if task := new(g.Task(i)); task.Kind.Compute() {
				cost := costs.Task(task)
				busy[task.Stage] += cost.Busy
				launch[task.Stage] += cost.Launch
			}
		}
		return busy, launch
	}
	busy, launch := price(true, 4, 4, 2)
	apart, apartLaunch := price(false, 4, 4, 2)
	one, oneLaunch := price(false, 10)
	require.InDelta(t, one[2], busy[2], 6) // rounded for each of six tasks
	require.InDelta(t, oneLaunch[2], launch[2], 6)
	require.Less(t, busy[2], apart[2])
	require.Less(t, launch[2], apartLaunch[2])
	require.Equal(t, apart[0], busy[0])
	require.Equal(t, apartLaunch[1], launch[1])
}

func gpipeOrder(t tester, microbatches int, stageRank []int32) order.Order {
	s, err := schedules.Find("gpipe")
	require.NoError(t, err)
	o, err := s.Order(graph.Shape{Ranks: 2, Microbatches: microbatches}, stageRank)
	require.NoError(t, err)
	return o
}
