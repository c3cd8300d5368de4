package sim_test

import (
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
)

// drawPipeline draws a small legal pipeline with replicas and gradient sums.
func drawPipeline(t *rapid.T) *schedules.Graph {
	name := rapid.SampledFrom([]string{
		"gpipe", "1f1b", "torchgpipe", "model-parallel", "zb-h1", "zb-h2", "looped-bfs", "interleaved-1f1b", "interleaved-zero-bubble",
	}).Draw(t, "schedule")
	shape := schedules.Shape{
		Ranks:        rapid.IntRange(1, 4).Draw(t, "ranks"),
		Microbatches: rapid.IntRange(1, 4).Draw(t, "microbatches"),
		Replicas:     rapid.IntRange(1, 2).Draw(t, "replicas"),
	}
	s, err := schedules.Find(name)
	require.NoError(t, err)
	if s.Virtual {
		shape.Virtual = rapid.IntRange(1, 3).Draw(t, "virtual")
		if s.Check(shape) != nil {
			shape.Virtual = 1
		}
	}
	placement := s.Placement(shape)
	if name == "gpipe" || name == "model-parallel" {
		placement = rapid.SliceOfN(rapid.Int32Range(0, int32(shape.Ranks-1)), 1, 5).Draw(t, "placement")
	}
	order, err := s.Order(shape, placement)
	require.NoError(t, err)
	p := schedules.Pipeline{Name: name, Shape: shape, StageRank: placement, Order: order, Optimizer: rapid.Bool().Draw(t, "optimizer")}
	for range placement {
		p.Sync.Buckets = append(p.Sync.Buckets, make([]int64, rapid.IntRange(0, 3).Draw(t, "buckets")))
	}
	p.Sync.Parameters = make([]int64, len(placement))
	if rapid.Bool().Draw(t, "units") {
		for range placement {
			n := rapid.Int64Range(0, 1).Draw(t, "unit")
			p.Sync.Units = append(p.Sync.Units, schedules.Unit{Gather: n, Scatter: n})
		}
	}
	p.Synchronous = rapid.Bool().Draw(t, "synchronous")
	p.Sync.Overlap, p.Sync.Sharded = rapid.Bool().Draw(t, "overlap"), rapid.Bool().Draw(t, "sharded")
	if len(placement) > 1 && rapid.Bool().Draw(t, "tied") {
		p.Tied = []schedules.Tied{{Stages: []int{0, len(placement) - 1}}}
	}
	g, err := p.Graph()
	require.NoError(t, err)
	require.NoError(t, g.Validate())
	return g
}

// drawPrices draws a duration for every kind of task, a little different by
// stage and microbatch; messages share one network card per sending rank.
func drawPrices(t *rapid.T, g *schedules.Graph) schedules.Costs {
	busy := rapid.SliceOfN(rapid.IntRange(0, 4), int(schedules.Optimizer)+1, -1).Draw(t, "busy")
	latency := rapid.IntRange(0, 3).Draw(t, "latency")
	links := rapid.Bool().Draw(t, "links")
	spread := rapid.IntRange(0, 2).Draw(t, "spread")
	return schedules.Costs{Task: func(task *schedules.Task) schedules.Cost {
		c := schedules.Cost{Busy: time.Duration(busy[task.Kind])}
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
