package sim_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules/collective"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// published is an entry of the files of published orders.
type published struct {
	Schedule string
	P, M, V  int
	Makespan map[string]json.RawMessage
	Peak     []int `json:"peak_in_flight"`
}

// readPublished reads a file of testdata of schedules, whose README.md names
// the source.
func readPublished(t *testing.T, file string, count int) []published {
	data, err := os.ReadFile("../schedules/testdata/" + file)
	require.NoError(t, err)
	var entries []published
	require.NoError(t, json.Unmarshal(data, &entries))
	require.Len(t, entries, count)
	return entries
}

// simulate runs a schedule and summarizes it.
func (e published) simulate(t *testing.T, costs graph.Costs) graph.Summary {
	trace, err := sim.Run(buildShape(t, e.Schedule, graph.Shape{Ranks: e.P, Microbatches: e.M, Virtual: e.V}), costs)
	require.NoError(t, err)
	s := graph.Summarize(trace)
	for r, peak := range e.Peak {
		require.Equal(t, peak, s.Ranks[r].PeakInFlight)
	}
	return s
}

// The published makespans under equal and unequal costs, with and without
// latency.
func TestPublishedMakespans(t *testing.T) {
	models := map[string]graph.Costs{
		"unit": halves(1, 1, 1, 0), "unit_comm1": halves(1, 1, 1, 1),
		"hetero": halves(3, 4, 3, 0), "hetero_comm2": halves(3, 4, 3, 2),
	}
	for file, count := range map[string]int{"orders.json": 8, "orders_looped.json": 12, "orders_zbv.json": 4} {
		for _, e := range readPublished(t, file, count) {
			require.Len(t, e.Makespan, len(models))
			for name, want := range e.Makespan {
				t.Run(fmt.Sprintf("%s P=%d M=%d V=%d %s", e.Schedule, e.P, e.M, e.V, name), func(t *testing.T) {
					require.JSONEq(t, string(want), fmt.Sprint(int64(e.simulate(t, models[name]).Makespan)))
				})
			}
		}
	}
}

// The same of schedules with overlapped pairs, in the three ways to run one.
func TestPublishedPairs(t *testing.T) {
	pairings := map[string]wiring.Pairing{"fused": wiring.Fused, "serial": wiring.Serial, "overlap": wiring.Overlap}
	models := map[string]graph.Costs{
		"unit": halves(1, 1, 1, 0), "unit_comm1": halves(1, 1, 1, 1), "hetero": halves(3, 4, 3, 0), "hetero_comm2": halves(3, 4, 3, 2),
	}
	for _, e := range readPublished(t, "orders_pairs.json", 5) {
		for name, want := range e.Makespan {
			model, pair, _ := strings.Cut(strings.Replace(name, ", pair ", "/", 1), "/")
			p := ordertest.Shaped(t, e.Schedule, graph.Shape{Ranks: e.P, Microbatches: e.M, Virtual: e.V})
			p.Pairs = pairings[pair]
			g, err := p.Graph()
			require.NoError(t, err)
			trace, err := sim.Run(g, models[model])
			require.NoError(t, err)
			s := graph.Summarize(trace)
			at := fmt.Sprintf("%s P=%d M=%d %s", e.Schedule, e.P, e.M, name)
			require.JSONEq(t, string(want), fmt.Sprint(int64(s.Makespan)), at)
			for r, peak := range e.Peak {
				require.Equal(t, peak, s.Ranks[r].PeakInFlight, at)
			}
		}
	}
}

// The same of the schedules with split backwards, and the longest of the ranks'
// own spans, which is what their papers divide by.
func TestPublishedSpans(t *testing.T) {
	for _, e := range readPublished(t, "orders_zb.json", 6) {
		require.Len(t, e.Makespan, 7)
		for model, want := range e.Makespan {
			t.Run(fmt.Sprintf("%s P=%d M=%d %s", e.Schedule, e.P, e.M, model), func(t *testing.T) {
				var f, i, w, c time.Duration
				_, err := fmt.Sscanf(model, "F%d I%d W%d c%d", &f, &i, &w, &c)
				require.NoError(t, err)
				s := e.simulate(t, halves(f, i, w, c))
				busy := float64(e.M) * float64(f+i+w)
				span := math.Round(busy / (1 - s.Bubble.Span))
				require.JSONEq(t, string(want), fmt.Sprintf(`{"makespan": %d, "span": %.0f}`, int64(s.Makespan), span))
			})
		}
	}
}

// Stage times that were measured on three unequal stages with two microbatches.
// 1F1B is the faster of the two because the last stage's backwards start
// early.
func TestMeasuredTimeline(t *testing.T) {
	const cs = 10 * time.Millisecond
	forward := [3][2]time.Duration{{158, 138}, {313, 292}, {58, 49}}
	backward := [3][2]time.Duration{{580, 741}, {1258, 1307}, {253, 268}}
	costs := graph.Costs{ByMicrobatch: true, Task: func(t *graph.Task) graph.Cost {
		switch t.Kind {
		case graph.Forward:
			return graph.Cost{Busy: forward[t.Stage][t.Microbatch] * cs}
		case graph.Backward:
			return graph.Cost{Busy: backward[t.Stage][t.Microbatch] * cs}
		}
		return graph.Cost{}
	}}
	for name, want := range map[string]time.Duration{"gpipe": 43710 * time.Millisecond, "1f1b": 40880 * time.Millisecond} {
		trace, err := sim.Run(build(t, name, 3, 2), costs)
		require.NoError(t, err)
		require.Equal(t, want, trace.End(), name)
	}
}

// 20 GB over 8 ranks at 100 Gbit/s: 14 steps of 2.5 GB, 0.2 s each.
func TestRingAllReduce(t *testing.T) {
	const bandwidth = 12.5e9 // bytes per second
	costs := graph.Costs{Task: func(t *graph.Task) graph.Cost {
		if t.Kind == graph.Send {
			return graph.Cost{Busy: time.Duration(float64(t.Bytes) / bandwidth * 1e9), Link: t.Rank + 1}
		}
		return graph.Cost{}
	}}
	for _, c := range collective.Conventions() {
		g, err := collective.Call{Collective: collective.RingAllReduce, Ranks: 8, Length: 5e9, Element: 4, Convention: c.Name}.Graph()
		require.NoError(t, err)
		trace, err := sim.Run(g, costs)
		require.NoError(t, err)
		s := graph.Summarize(trace)
		require.Equal(t, 2800*time.Millisecond, s.StepTime)
		require.Equal(t, 8*14, s.Messages)
		for _, rank := range s.Ranks {
			require.EqualValues(t, 35e9, rank.SentBytes)
			require.Equal(t, 2800*time.Millisecond, rank.ExposedCommunication)
		}
	}
}
