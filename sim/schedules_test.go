package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
)

// drawScheduled draws a schedule of the catalog and a shape that it serves.
func drawScheduled(t *rapid.T) *schedules.Graph {
	s := rapid.SampledFrom(schedules.Catalog()).Draw(t, "schedule")
	shape := schedules.Shape{Ranks: 1, Virtual: 1, Microbatches: rapid.IntRange(1, 12).Draw(t, "microbatches")}
	if s.Pipelined {
		shape.Ranks = rapid.IntRange(1, 6).Draw(t, "ranks")
	}
	if s.Virtual {
		shape.Virtual = rapid.IntRange(1, 3).Draw(t, "virtual")
	}
	if s.PerRank > 0 {
		shape.Microbatches += 2 * shape.Ranks
	}
	if s.SecondPlacement(shape) != nil {
		shape.Ranks, shape.Microbatches = 2*shape.Ranks, 2*(shape.Microbatches+2*shape.Ranks)
	}
	if s.Check(shape) != nil {
		shape.Virtual = 1
	}
	shape = s.Sized(shape)
	p, err := s.Pipeline(shape, nil)
	require.NoError(t, err)
	g, err := p.Graph()
	require.NoError(t, err)
	require.NoError(t, g.Validate())
	return g
}

// Every schedule of the catalog, its order fixed, is no faster for a higher cost
// or a latency, takes k times as long if all costs are k times as high, and
// keeps no rank waiting if there is only one.
func TestLawsOfSchedules(t *testing.T) {
	draw := func(t *rapid.T, name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 9).Draw(t, name))
	}
	rapid.Check(t, func(t *rapid.T) {
		g := drawScheduled(t)
		f, i, w, c := draw(t, "F"), draw(t, "I"), draw(t, "W"), draw(t, "latency")
		end := run(t, g, halves(f, i, w, c)).End()
		more := halves(f+draw(t, "more F"), i+draw(t, "more I"), w+draw(t, "more W"), c+draw(t, "more latency"))
		require.GreaterOrEqual(t, run(t, g, more).End(), end)
		k := draw(t, "factor")
		require.Equal(t, k*end, run(t, g, halves(k*f, k*i, k*w, k*c)).End())
		s := schedules.Summarize(run(t, g, halves(f, i, w, c)))
		if g.Shape.Ranks == 1 {
			require.Zero(t, s.Bubble)
		}
		require.GreaterOrEqual(t, end, time.Duration(g.Shape.Microbatches*g.Shape.Virtual)*(f+i+w))
	})
}
