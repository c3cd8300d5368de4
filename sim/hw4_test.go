package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
	"psim/sim"
)

// This pipeline overlaps forwards only: (M+P-1)F + MPB, and every message of a backward is
// waited for.
func TestSerialBackwardClosedForm(t *testing.T) {
	for p := 1; p <= 6; p++ {
		for m := 1; m <= 12; m++ {
			g := buildShape(t, "hw4", graph.Shape{Ranks: p, Microbatches: m})
			for _, c := range []struct{ f, b, latency time.Duration }{{1, 2, 0}, {3, 7, 0}, {5, 1, 0}, {3, 7, 2}} {
				trace, err := sim.Run(g, uniform(c.f, c.b, c.latency))
				require.NoError(t, err)
				want := time.Duration(m+p-1)*c.f + time.Duration(m*p)*c.b + time.Duration((p-1)*(m+1))*c.latency
				require.Equal(t, want, trace.End(), "P=%d M=%d %v", p, m, c)
			}
		}
	}
}

// GPT-2 124M in MFLOP per token: 174.6 in the blocks, half on each
// device, 77.2 in the head, which is not cut into microbatches and belongs to
// device 0. Overlapping forwards alone makes a step faster than model
// parallelism by 6, 9 and 11 % (2, 4, 8 microbatches), where a whole pipeline
// would by 21, 35 and 44 %. Measured runs stay near the first.
func TestSerialBackwardSpeedUps(t *testing.T) {
	const blocks, head = 174_600, 77_200
	step := func(name string, m int) float64 {
		f := time.Duration(blocks / 2 / m)
		trace, err := sim.Run(build(t, name, 2, m), uniform(f, 2*f, 0))
		require.NoError(t, err)
		return float64(trace.End() + 3*head)
	}
	for m, want := range map[int][2]float64{2: {1.06, 1.21}, 4: {1.09, 1.35}, 8: {1.11, 1.44}} {
		parallel := step("model-parallel", m)
		require.InDelta(t, want[0], parallel/step("hw4", m), 0.006, "M=%d", m)
		require.InDelta(t, want[1], parallel/step("gpipe", m), 0.006, "M=%d", m)
	}
}
