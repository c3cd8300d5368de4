package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/sim"
)

// uniform prices forwards, backwards and the latency of messages.
func uniform(f, b, c time.Duration) graph.Costs {
	return graph.Costs{Task: func(t *graph.Task) graph.Cost {
		switch {
		case t.Kind == graph.Forward:
			return graph.Cost{Busy: f}
		case t.Kind == graph.Backward:
			return graph.Cost{Busy: b}
		case t.Kind.Message():
			return graph.Cost{Delay: c}
		}
		return graph.Cost{}
	}}
}

// halves prices forwards, both halves of backwards, together where they are not
// split, and the latency of messages.
func halves(f, i, w, c time.Duration) graph.Costs {
	whole := uniform(f, i+w, c)
	return graph.Costs{Task: func(t *graph.Task) graph.Cost {
		switch t.Kind {
		case graph.InputGradient:
			return graph.Cost{Busy: i}
		case graph.WeightGradient:
			return graph.Cost{Busy: w}
		}
		return whole.Task(t)
	}}
}

func build(t testing.TB, name string, p, m int) *graph.Graph {
	return buildShape(t, name, graph.Shape{Ranks: p, Microbatches: m})
}

func buildShape(t testing.TB, name string, shape graph.Shape) *graph.Graph {
	g, err := ordertest.Shaped(t, name, shape).Graph()
	require.NoError(t, err)
	return g
}

func TestClosedForms(t *testing.T) {
	const f, b, c = 3, 7, 2
	for p := 1; p <= 16; p++ {
		for m := 1; m <= 64; m++ {
			P, M := time.Duration(p), time.Duration(m)
			for _, name := range []string{"gpipe", "1f1b", "torchgpipe"} {
				g := build(t, name, p, m)
				trace, err := sim.Run(g, uniform(f, b, 0))
				require.NoError(t, err)
				s := graph.Summarize(trace)
				require.Equal(t, (M+P-1)*(f+b), s.Makespan, "%s P=%d M=%d", name, p, m)
				require.InDelta(t, float64(p-1)/float64(m+p-1), s.Bubble.Makespan, 1e-12)
				for r, rank := range s.Ranks {
					want := m
					if name == "1f1b" {
						want = min(m, p-r)
					}
					require.Equal(t, want, rank.PeakInFlight)
				}
				trace, err = sim.Run(g, uniform(f, b, c))
				require.NoError(t, err)
				switch {
				case name == "gpipe":
					require.Equal(t, (M+P-1)*(f+b)+2*(P-1)*c, trace.End())
				case name == "1f1b" && p >= 2 && m%p == 0:
					require.Equal(t, (M+P-1)*(f+b)+c*(2*(P-1)*M/P+2*(P-2)), trace.End())
				}
			}
		}
	}
}

// Communication within tasks is recorded as it is priced, and only where it is.
func TestInnerIsRecorded(t *testing.T) {
	g := build(t, "gpipe", 2, 3)
	costs := uniform(3, 7, 2)
	trace, err := sim.Run(g, costs)
	require.NoError(t, err)
	inner := graph.Inner{Within: graph.Within{Communication: 2, Exposed: 1, SentBytes: 5}}
	price := costs.Task
	costs.Task = func(t *graph.Task) graph.Cost {
		c := price(t)
		if t.Kind == graph.Backward {
			c.Inner = &inner
		}
		return c
	}
	again, err := sim.Run(g, costs)
	require.NoError(t, err)
	require.Equal(t, ordertest.Spans(trace), ordertest.Spans(again))
	for i, task := range g.Tasks() {
		require.Nil(t, trace.Inner(i))
		if task.Kind == graph.Backward {
			require.Equal(t, &inner, again.Inner(i))
		} else {
			require.Nil(t, again.Inner(i))
		}
	}
}
