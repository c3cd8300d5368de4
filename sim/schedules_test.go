package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// drawScheduled draws a schedule of the catalog, a shape that it serves, and how
// its pairs run, if it has any.
func drawScheduled(t *rapid.T) (*graph.Graph, wiring.Pairing) {
	s := rapid.SampledFrom(schedules.Catalog()).Draw(t, "schedule")
	shape := rapid.SampledFrom(servedShapes(s)).Draw(t, "shape")
	p, err := s.Pipeline(shape, nil)
	require.NoError(t, err)
	p.Pairs = rapid.SampledFrom([]wiring.Pairing{wiring.Fused, wiring.Serial, wiring.Overlap}).Draw(t, "pairs")
	g, err := p.Graph()
	require.NoError(t, err)
	require.NoError(t, g.Validate())
	return g, p.Pairs
}

// Every schedule of the catalog, its order fixed, is no faster for a higher cost
// or a latency, takes k times as long if all costs are k times as high, and
// keeps no rank waiting if there is only one.
func TestLawsOfSchedules(t *testing.T) {
	draw := func(t *rapid.T, name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 9).Draw(t, name))
	}
	rapid.Check(t, func(t *rapid.T) {
		g, pairs := drawScheduled(t)
		f, i, w, c := draw(t, "F"), draw(t, "I"), draw(t, "W"), draw(t, "latency")
		end := run(t, g, halves(f, i, w, c)).End()
		more := halves(f+draw(t, "more F"), i+draw(t, "more I"), w+draw(t, "more W"), c+draw(t, "more latency"))
		require.GreaterOrEqual(t, run(t, g, more).End(), end)
		k := draw(t, "factor")
		require.Equal(t, k*end, run(t, g, halves(k*f, k*i, k*w, k*c)).End())
		s := graph.Summarize(run(t, g, halves(f, i, w, c)))
		if g.Shape.Ranks == 1 {
			require.Zero(t, s.Bubble)
		}
		if pairs != wiring.Overlap { // of which the shorter half takes no time
			require.GreaterOrEqual(t, end, time.Duration(g.Shape.Microbatches*g.Shape.Virtual)*(f+i+w))
		}
	})
}

// In every simulated schedule no action starts before what it needs has
// ended, and a latency more if that is on another rank.
func TestDependenciesOfSchedules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, _ := drawScheduled(t)
		c := time.Duration(rapid.IntRange(0, 3).Draw(t, "latency"))
		trace := run(t, g, halves(3, 2, 1, c))
		type place struct{ stage, microbatch int32 }
		done := map[graph.Kind]map[place]graph.Span{}
		for k := graph.Forward; k <= graph.WeightGradient; k++ {
			done[k] = map[place]graph.Span{}
		}
		for i, task := range g.Tasks() {
			if task.Kind.Compute() {
				done[task.Kind][place{task.Stage, task.Microbatch}] = trace.Span(i)
			}
		}
		last := int32(len(g.Placement.First) - 1)
		for i, task := range g.Tasks() {
			at, start := place{task.Stage, task.Microbatch}, trace.Span(i).Start
			after := func(k graph.Kind, stage int32) {
				if span, there := done[k][place{stage, at.microbatch}]; there {
					latency := time.Duration(0)
					if g.Placement.Rank(stage, at.microbatch) != task.Rank {
						latency = c
					}
					require.GreaterOrEqual(t, start, span.End+latency, "%s before %v of stage %d", task, k, stage)
				} else {
					require.NotEqual(t, graph.Forward, k, "%s without its forward", task)
				}
			}
			switch task.Kind {
			case graph.Forward:
				if at.stage > 0 {
					after(graph.Forward, at.stage-1)
				}
			case graph.Backward, graph.InputGradient:
				after(graph.Forward, at.stage)
				if at.stage < last {
					after(graph.Backward, at.stage+1)
					after(graph.InputGradient, at.stage+1)
				}
			case graph.WeightGradient:
				after(graph.InputGradient, at.stage)
			}
		}
	})
}
