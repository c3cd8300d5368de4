package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
	"psim/sim"
)

// The published spans of V-Half and V-Min: 24 microbatches, F = I = W = 1, the
// longest of the ranks' own spans over the ideal 144, and the peaks.
func TestPublishedVSpans(t *testing.T) {
	for _, c := range []struct {
		name       string
		ranks      int
		over, peak int
	}{
		{"v-half", 4, 5, 6}, {"v-half", 8, 17, 10}, {"v-min", 4, 11, 4}, {"v-min", 8, 27, 8},
	} {
		trace, err := sim.Run(buildShape(t, c.name, graph.Shape{Ranks: c.ranks, Microbatches: 24}), halves(1, 1, 1, 0))
		require.NoError(t, err)
		require.EqualValues(t, 6*24+c.over, longestSpan(trace), "%+v", c)
		peak := 0
		for _, r := range graph.Summarize(trace).Ranks {
			peak = max(peak, r.PeakInFlight)
		}
		require.Equal(t, c.peak, peak, "%+v", c)
	}
}

// The activations of V-Half and V-Min do not grow with the microbatches:
// 2*((P+2)/2) and 2*((P+4)/3) half stages, rounded down.
func TestVPeaks(t *testing.T) {
	for p := 1; p <= 9; p++ {
		for m := 1; m <= 40; m += 3 {
			for name, peak := range map[string]int{"v-half": 2 * ((p + 2) / 2), "v-min": 2 * ((p + 4) / 3)} {
				trace, err := sim.Run(buildShape(t, name, graph.Shape{Ranks: p, Microbatches: m}), halves(1, 1, 1, 0))
				require.NoError(t, err)
				most := 0
				for _, r := range graph.Summarize(trace).Ranks {
					most = max(most, r.PeakInFlight)
				}
				if m >= p {
					require.Equal(t, peak, most, "%s P=%d M=%d", name, p, m)
				}
				require.LessOrEqual(t, most, min(peak, 2*m), "%s P=%d M=%d", name, p, m)
			}
		}
	}
}

// ZBV with F = I = W and M >= 2P-1: no rank waits between its first and last
// task, the makespan is 6M + P-1, and every rank holds 2P half stages; so it
// does with any costs. With unequal ones there is a bubble.
func TestZBVClosedForm(t *testing.T) {
	for p := 1; p <= 8; p++ {
		for m := 1; m <= 24; m++ {
			g := buildShape(t, "zbv", graph.Shape{Ranks: p, Microbatches: m})
			for _, unit := range []time.Duration{1, 7} {
				trace, err := sim.Run(g, halves(unit, unit, unit, 0))
				require.NoError(t, err)
				if m < 2*p-1 {
					continue
				}
				require.Equal(t, time.Duration(6*m+p-1)*unit, trace.End())
				require.Equal(t, time.Duration(6*m)*unit, longestSpan(trace))
				for _, r := range graph.Summarize(trace).Ranks {
					require.Equal(t, min(2*p, 2*m), r.PeakInFlight, "P=%d M=%d", p, m)
				}
			}
			if trace, err := sim.Run(g, halves(3, 4, 3, 0)); m >= 2*p-1 && p > 1 {
				require.NoError(t, err)
				require.Greater(t, longestSpan(trace), time.Duration(20*m))
			}
		}
	}
}

// DualPipe over P ranks, and DualPipeV over P/2: rank 0 idles for
// (P/2-1)(F&B+B-3W) if F = I = W and a pair takes F + B, and every rank holds
// P+1 microbatches of a stage.
func TestDualPipeClosedForm(t *testing.T) {
	for p := 2; p <= 12; p += 2 {
		for m := 2 * p; m <= 2*p+12; m += 2 {
			for name, shape := range map[string]graph.Shape{"dualpipe": {Ranks: p, Microbatches: m}, "dualpipev": {Ranks: p / 2, Microbatches: m}} {
				trace, err := sim.Run(buildShape(t, name, shape), halves(2, 2, 2, 0))
				require.NoError(t, err)
				s := graph.Summarize(trace)
				require.EqualValues(t, (p/2-1)*(6+4-3*2), s.Ranks[0].Idle, "%s %+v", name, shape)
				for _, r := range s.Ranks {
					require.Equal(t, p+1, r.PeakInFlight, "%s %+v", name, shape)
				}
			}
		}
	}
}

// Chimera, one pair of pipelines, with F = B: 2M+P-2 slots where P divides M;
// with M = P from P/2+1 to P activations, the fewest on the outer ranks.
func TestChimeraClosedForm(t *testing.T) {
	for p := 2; p <= 12; p += 2 {
		for units := 1; units <= 4; units++ {
			m := p * units
			trace, err := sim.Run(buildShape(t, "chimera", graph.Shape{Ranks: p, Microbatches: m}), uniform(1, 1, 0))
			require.NoError(t, err)
			require.EqualValues(t, 2*m+p-2, trace.End(), "P=%d M=%d", p, m)
			for r, rank := range graph.Summarize(trace).Ranks {
				require.LessOrEqual(t, rank.PeakInFlight, p, "P=%d M=%d", p, m)
				if units == 1 {
					require.Equal(t, p/2+1+min(r, p-1-r), rank.PeakInFlight, "P=%d rank %d", p, r)
				}
			}
		}
	}
}
