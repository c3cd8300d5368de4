package sim_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// drawPipeline draws a small legal pipeline with replicas and gradient sums, of
// any schedule whose stages have one copy.
func drawPipeline(t *rapid.T) *graph.Graph {
	s := rapid.SampledFrom(schedules.Catalog()).Filter(func(s schedules.Schedule) bool {
		return s.Placement(s.Example()).Second == nil && !s.Stashing // which has no sums and one optimizer per microbatch
	}).Draw(t, "schedule")
	shape := rapid.SampledFrom(smallShapes(s)).Draw(t, "shape")
	placement := s.Placement(shape).First
	if s.MultiStage && s.Pipelined {
		placement = rapid.SliceOfN(rapid.Int32Range(0, int32(shape.Ranks-1)), 1, 5).Draw(t, "placement")
	}
	if shape.Replicas = rapid.IntRange(1, 2).Draw(t, "replicas"); s.Check(shape) != nil {
		shape.Replicas = 1
	}
	p, err := s.Pipeline(shape, placement)
	require.NoError(t, err)
	p.Optimizer = rapid.Bool().Draw(t, "optimizer")
	for range placement {
		p.Sync.Buckets = append(p.Sync.Buckets, make([]int64, rapid.IntRange(0, 3).Draw(t, "buckets")))
	}
	p.Sync.Parameters = slices.Repeat([][]int64{{0}}, len(placement))
	if rapid.Bool().Draw(t, "units") {
		for range placement {
			n := rapid.Int64Range(0, 1).Draw(t, "unit")
			p.Sync.Units = append(p.Sync.Units, wiring.Unit{Gather: []int64{n}, Scatter: []int64{n}})
		}
	}
	p.Synchronous = rapid.Bool().Draw(t, "synchronous")
	p.Sync.Overlap, p.Sync.Sharded = rapid.Bool().Draw(t, "overlap"), rapid.Bool().Draw(t, "sharded")
	if len(placement) > 1 && rapid.Bool().Draw(t, "tied") {
		p.Tied = []wiring.Tied{{Stages: []int{0, len(placement) - 1}}}
	}
	g, err := p.Graph()
	require.NoError(t, err)
	require.NoError(t, g.Validate())
	return g
}

// smallShapes are those of up to 4 ranks and as few microbatches.
func smallShapes(s schedules.Schedule) []graph.Shape {
	return slices.DeleteFunc(servedShapes(s), func(shape graph.Shape) bool {
		return shape.Ranks > 4 || shape.Virtual > 3 || shape.Microbatches > max(4, 2*shape.Ranks)
	})
}

// drawPrices draws a duration for every kind of task, a little different by
// stage and microbatch; messages share one network card per sending rank.
func drawPrices(t *rapid.T, g *graph.Graph) graph.Costs {
	busy := rapid.SliceOfN(rapid.IntRange(0, 4), int(graph.Optimizer)+1, -1).Draw(t, "busy")
	latency := rapid.IntRange(0, 3).Draw(t, "latency")
	links := rapid.Bool().Draw(t, "links")
	spread := rapid.IntRange(0, 2).Draw(t, "spread")
	return graph.Costs{ByMicrobatch: true, Task: func(task *graph.Task) graph.Cost {
		c := graph.Cost{Busy: time.Duration(busy[task.Kind])}
		switch {
		case task.Kind.Compute():
			c.Busy += time.Duration(spread * int(3*task.Stage+task.Microbatch) % 4)
		case task.Kind.Message():
			c.Delay = time.Duration(latency)
			if links {
				c.Busy, c.Link = c.Busy+1, task.Rank+1
			}
		}
		return c
	}}
}
