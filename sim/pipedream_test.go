package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/sim"
)

// PipeDream with an update of time U after every backward. One step fills and
// drains the pipeline once and takes (M+P-1)(F+B) + (M-1)U to its last backward, as
// no backward waits for another stage's update; in between, a microbatch follows
// another after F+B+U, which is a rank's own work: no bubble.
func TestPipedreamClosedForm(t *testing.T) {
	for p := 1; p <= 7; p++ {
		for m := 1; m <= 20; m++ {
			for _, k := range []struct{ f, b, u time.Duration }{{1, 1, 0}, {1, 2, 0}, {10, 20, 3}, {7, 5, 1}, {4, 9, 4}} {
				s, err := schedules.Find("pipedream")
				require.NoError(t, err)
				pipeline, err := s.Pipeline(graph.Shape{Ranks: p, Microbatches: m}, nil)
				require.NoError(t, err)
				pipeline.Optimizer = true
				g, err := pipeline.Graph()
				require.NoError(t, err)
				costs := uniform(k.f, k.b, 0)
				plain := costs.Task
				costs.Task = func(task *graph.Task) graph.Cost {
					if task.Kind == graph.Optimizer {
						return graph.Cost{Busy: k.u}
					}
					return plain(task)
				}
				trace, err := sim.Run(g, costs)
				require.NoError(t, err)
				got := graph.Summarize(trace)
				pd, md := time.Duration(p), time.Duration(m)
				require.Equal(t, (md+pd-1)*(k.f+k.b)+(md-1)*k.u, got.Makespan, "P=%d M=%d %v", p, m, k)
				require.Equal(t, got.Makespan+k.u, got.StepTime)
				for _, r := range got.Ranks {
					require.Equal(t, md*(k.f+k.b), r.Compute)
					require.Equal(t, md*k.u, r.Optimizer)
				}
				if m > 1 {
					require.Equal(t, k.f+k.b+k.u, got.SteadyMicrobatch, "P=%d M=%d %v", p, m, k)
				}
			}
		}
	}
}

// Schedules that flush the pipeline have no such pace.
func TestFlushedHasNoSteadyState(t *testing.T) {
	trace, err := sim.Run(buildShape(t, "1f1b", graph.Shape{Ranks: 2, Microbatches: 4}), uniform(1, 2, 0))
	require.NoError(t, err)
	require.Zero(t, graph.Summarize(trace).SteadyMicrobatch)
}
