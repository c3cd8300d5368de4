package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/sim"
)

// formCosts are times of one chunk: F, I, W and the latency of a boundary.
type formCosts struct{ f, i, w, c time.Duration }

// someCosts has unequal times, W longer and shorter than the others, with and
// without latency.
var someCosts = []formCosts{
	{1, 1, 1, 0}, {3, 4, 3, 0}, {2, 7, 1, 0}, {5, 6, 4, 0}, {1, 2, 9, 0}, {3, 4, 3, 2}, {1, 1, 1, 1}, {10, 10, 8, 3}, {4, 2, 6, 2},
}

// onGrid runs a schedule over many shapes and costs; form gets every run that
// the schedule serves, and says whether it had anything to compare.
func onGrid(t *testing.T, name string, virtual int, form func(t *testing.T, shape graph.Shape, k formCosts, s graph.Summary, span time.Duration) bool) {
	schedule, err := schedules.Find(name)
	require.NoError(t, err)
	compared := 0
	for p := 1; p <= 8; p++ {
		for m := 1; m <= 24; m++ {
			for v := 1; v <= virtual; v++ {
				shape := graph.Shape{Ranks: p, Microbatches: m, Virtual: v}
				if schedule.Check(shape) != nil {
					continue
				}
				g := buildShape(t, name, shape)
				for _, k := range someCosts {
					trace, err := sim.Run(g, halves(k.f, k.i, k.w, k.c))
					require.NoError(t, err)
					ok := true
					at := fmt.Sprintf("%s P=%d M=%d V=%d %v", name, p, m, v, k)
					if !t.Run(at, func(t *testing.T) { ok = form(t, shape, k, graph.Summarize(trace), longestSpan(trace)) }) {
						t.FailNow()
					}
					if ok {
						compared++
					}
				}
			}
		}
	}
	require.Greater(t, compared, 200, name)
	t.Logf("%s: %d runs compared", name, compared)
}

// longestSpan is the longest time from the first to the last compute task of a
// rank.
func longestSpan(trace *graph.Trace) time.Duration {
	first, last := map[int32]time.Duration{}, map[int32]time.Duration{}
	longest := time.Duration(0)
	for i, task := range trace.Graph.Tasks() {
		if !task.Kind.Compute() {
			continue
		}
		if _, seen := first[task.Rank]; !seen {
			first[task.Rank] = trace.Span(i).Start
		}
		last[task.Rank] = max(last[task.Rank], trace.Span(i).End)
		longest = max(longest, last[task.Rank]-first[task.Rank])
	}
	return longest
}

// Interleaved 1F1B: (MV+P-1)(F+B), and 2(PV-1)c more with latency where P
// divides M and c is no longer than a task; with fewer microbatches than ranks
// every further chunk waits for the pipeline to come around.
func TestInterleavedClosedForm(t *testing.T) {
	onGrid(t, "interleaved-1f1b", 4, func(t *testing.T, shape graph.Shape, k formCosts, s graph.Summary, _ time.Duration) bool {
		p, m, v := shape.Ranks, shape.Microbatches, shape.Virtual
		round := m / max(1, m/p)
		for r, rank := range s.Ranks {
			peak := min((v-1)*round+2*(p-1-r)+1, m*v)
			if v == 1 {
				peak = min(p-r, m)
			}
			require.Equal(t, peak, rank.PeakInFlight)
		}
		chunks := m*v + p - 1 + (v-1)*max(0, p-m)
		want := time.Duration(chunks) * (k.f + k.i + k.w)
		switch {
		case k.c == 0:
		case v > 1 && p > 1 && m%p == 0 && k.c <= min(k.f, k.i+k.w):
			want += 2 * time.Duration(p*v-1) * k.c
		default:
			return false
		}
		require.Equal(t, want, s.Makespan)
		return true
	})
}

// Looped BFS: the same time, GPipe's memory; a latency is paid once each way
// if there are enough microbatches to hide the others behind.
func TestLoopedBFSClosedForm(t *testing.T) {
	onGrid(t, "looped-bfs", 4, func(t *testing.T, shape graph.Shape, k formCosts, s graph.Summary, _ time.Duration) bool {
		p, m, v := shape.Ranks, shape.Microbatches, shape.Virtual
		for _, rank := range s.Ranks {
			require.Equal(t, m*v, rank.PeakInFlight)
		}
		want := time.Duration(m*v+p-1+(v-1)*max(0, p-m)) * (k.f + k.i + k.w)
		switch {
		case k.c == 0:
		case p > 1 && m >= 2*p && k.c <= min(k.f, k.i+k.w):
			want += 2 * time.Duration(p-1) * k.c
		default:
			return false
		}
		require.Equal(t, want, s.Makespan)
		return true
	})
}

// ZB-H1 for M >= P and W <= min(F, I): M(F+I+W) + (P-1)(F+I-W), and P
// microbatches in flight on every rank.
func TestZeroBubbleH1ClosedForm(t *testing.T) {
	onGrid(t, "zb-h1", 1, func(t *testing.T, shape graph.Shape, k formCosts, s graph.Summary, _ time.Duration) bool {
		p, m := shape.Ranks, shape.Microbatches
		for _, rank := range s.Ranks {
			require.Equal(t, min(m, p), rank.PeakInFlight)
		}
		if m < p || k.w > min(k.f, k.i) || k.c > 0 {
			return false
		}
		require.Equal(t, time.Duration(m)*(k.f+k.i+k.w)+time.Duration(p-1)*(k.f+k.i-k.w), s.Makespan)
		return true
	})
}

// ZB-H2 for M >= 2P-1, W <= min(F, I) and 2c <= W: the longest span is
// M(F+I+W) + max(0, (P-1)(F+I+2c-2W)).
func TestZeroBubbleH2ClosedForm(t *testing.T) {
	onGrid(t, "zb-h2", 1, func(t *testing.T, shape graph.Shape, k formCosts, s graph.Summary, span time.Duration) bool {
		p, m := shape.Ranks, shape.Microbatches
		for _, rank := range s.Ranks {
			require.Equal(t, min(m, 2*p-1), rank.PeakInFlight)
		}
		if m < 2*p-1 || k.w > min(k.f, k.i) || 2*k.c > k.w {
			return false
		}
		require.Equal(t, time.Duration(m)*(k.f+k.i+k.w)+max(0, time.Duration(p-1)*(k.f+k.i+2*k.c-2*k.w)), span)
		return true
	})
}

// Interleaved zero bubble, where P divides M and W <= min(F, I):
// MV(F+I+W) + (P-1)(F+I-W), and VP chunks in flight on every rank.
func TestInterleavedZeroBubbleClosedForm(t *testing.T) {
	onGrid(t, "interleaved-zero-bubble", 4, func(t *testing.T, shape graph.Shape, k formCosts, s graph.Summary, _ time.Duration) bool {
		p, m, v := shape.Ranks, shape.Microbatches, shape.Virtual
		for _, rank := range s.Ranks {
			require.Equal(t, min((v-1)*(m/max(1, m/p))+p, m*v), rank.PeakInFlight)
		}
		if m%p != 0 || k.w > min(k.f, k.i) || k.c > 0 {
			return false
		}
		require.Equal(t, time.Duration(m*v)*(k.f+k.i+k.w)+time.Duration(p-1)*(k.f+k.i-k.w), s.Makespan)
		return true
	})
}

// Megatron's groups, the last of them smaller: the time does not depend on
// their size, the memory does.
func TestGroupsClosedForm(t *testing.T) {
	schedule, err := schedules.Find("interleaved-1f1b")
	require.NoError(t, err)
	compared := 0
	for p := 1; p <= 6; p++ {
		for m := 1; m <= 20; m++ {
			for v := 2; v <= 4; v++ {
				for n := p; n <= m; n++ {
					shape := graph.Shape{Ranks: p, Microbatches: m, Virtual: v, Group: n}
					if schedule.Check(shape) != nil {
						continue
					}
					trace, err := sim.Run(buildShape(t, "interleaved-1f1b", shape), halves(3, 4, 3, 0))
					require.NoError(t, err)
					s := graph.Summarize(trace)
					require.EqualValues(t, (m*v+p-1)*10, s.Makespan, "%+v", shape)
					for r, rank := range s.Ranks {
						require.Equal(t, min((v-1)*n+2*(p-1-r)+1, m*v), rank.PeakInFlight, "%+v", shape)
					}
					compared++
				}
			}
		}
	}
	require.Greater(t, compared, 500)
}
