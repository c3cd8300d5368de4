package wiring_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// Every builder makes well-formed graphs, with every kind of synchronisation.
func TestBuildersAreWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ordertest.Draw(t)
		stages := len(p.Boundaries) + 1
		bytes := rapid.SliceOfN(rapid.Int64Range(0, 99), 0, 4)
		p.Sync = wiring.Sync{
			Buckets:    rapid.SliceOfN(bytes, stages, stages).Draw(t, "buckets"),
			Parameters: slices.Repeat([][]int64{{0}}, stages),
			Overlap:    rapid.Bool().Draw(t, "overlap"),
			Sharded:    rapid.Bool().Draw(t, "sharded"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "tied") {
			p.Tied = append(p.Tied, wiring.Tied{Stages: rapid.SliceOfN(rapid.IntRange(0, stages-1), 1, 3).Draw(t, "stages"), Bytes: 4})
		}
		g := ordertest.Graph(t, p)
		sums := 0
		for _, task := range g.Tasks() {
			if (task.Kind == graph.AllReduce || task.Kind == graph.ReduceScatter) && task.Stage != graph.None {
				sums++
			}
		}
		want := 0
		if p.Shape.Replicas > 1 {
			for _, buckets := range p.Sync.Buckets {
				want += p.Shape.Replicas * len(buckets)
			}
		}
		require.Equal(t, want, sums, "one sum per bucket and replica")
	})
}
