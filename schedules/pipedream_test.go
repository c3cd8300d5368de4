package schedules_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// Every backward is followed by an update of its stage on the same stream, and by
// nothing after the last; microbatch m of stage s has its forward after
// max(0, m − (P − 1 − s)) updates, and no more than min(M, P − s) are in flight.
func TestPipedreamUpdates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks, m := rapid.IntRange(1, 7).Draw(t, "ranks"), rapid.IntRange(1, 20).Draw(t, "microbatches")
		p := ordertest.Shaped(t, "pipedream", graph.Shape{Ranks: ranks, Microbatches: m})
		require.Equal(t, ordertest.Order(t, "1f1b", ranks, m), p.Order)
		p.Optimizer = true
		g := ordertest.Graph(t, p)
		require.True(t, g.Stashing)
		updates := make([]int, ranks)
		start, order := g.ByStream()
		for s, stream := range g.Streams {
			for n := start[s]; n < start[s+1]; n++ {
				task := g.Task(order[n])
				switch task.Kind {
				case graph.Forward:
					require.Equal(t, max(0, int(task.Microbatch)-(ranks-1-int(stream.Rank))), updates[stream.Rank])
				case graph.Backward:
					next := g.Task(order[n+1])
					require.Equal(t, graph.Optimizer, next.Kind)
					require.Equal(t, [2]int32{task.Stage, task.Microbatch}, [2]int32{next.Stage, next.Microbatch})
				case graph.Optimizer:
					require.Equal(t, []int32{order[n-1]}, g.Deps(order[n]))
					updates[stream.Rank]++
				}
			}
		}
		for r, peak := range ordertest.Peaks(t, p) {
			require.Equal(t, m, updates[r])
			require.Equal(t, min(m, ranks-r), peak)
		}
	})
}

func TestPipedreamRefuses(t *testing.T) {
	s, err := schedules.Find("pipedream")
	require.NoError(t, err)
	const apart = `name = "pipedream": updates a stage after every microbatch, which is not modelled over replicas; set parallel.data = 1, not 2`
	require.EqualError(t, s.Check(graph.Shape{Ranks: 2, Microbatches: 2, Replicas: 2}), apart)
	p := ordertest.Shaped(t, "pipedream", graph.Shape{Ranks: 2, Microbatches: 2})
	p.Tied = []wiring.Tied{{Stages: []int{0, 1}, Bytes: 4}}
	_, err = p.Graph()
	require.EqualError(t, err, `name = "pipedream": stages 0 and 1 hold the same parameter, and would update it apart from each other; set model.tied = false, or schedule.stages = 1`)
	p.Tied, p.Shape.Replicas = nil, 2
	_, err = p.Graph()
	require.EqualError(t, err, apart)
	p.Shape.Replicas, p.Sync.Width = 1, 2
	_, err = p.Graph()
	require.EqualError(t, err, `name = "pipedream": updates a stage after every microbatch, which is not modelled over parts of a sequence; set parallel.context = 1, not 2`)
	p = ordertest.Shaped(t, "pipedream", graph.Shape{Ranks: 1, Microbatches: 2})
	p.Tied = []wiring.Tied{{Stages: []int{0, 0}, Bytes: 4}}
	ordertest.Graph(t, p)
}
