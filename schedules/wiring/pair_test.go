package wiring_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// pairings are the readings of an overlapped pair by name.
var pairings = map[string]wiring.Pairing{"fused": wiring.Fused, "serial": wiring.Serial, "overlap": wiring.Overlap}

func TestParsePairing(t *testing.T) {
	for name, want := range pairings {
		got, err := wiring.ParsePairing(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := wiring.ParsePairing("")
	require.NoError(t, err)
	require.Equal(t, wiring.Fused, got)
	_, err = wiring.ParsePairing("both")
	require.EqualError(t, err, `"both": must be one of fused, serial, overlap`)
}

// Two ranks of one stage. Rank 0 runs F0, then F1 and B0 as a pair: fused, F1
// waits for the B0 of rank 1; serial, it does not; overlapped, both last as
// long as B0.
func TestPairings(t *testing.T) {
	o, err := order.ReadCSV(strings.NewReader("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1\n"))
	require.NoError(t, err)
	require.Equal(t, "0F0 (0F1;0B0)OVERLAP_F_B 0B1\n1F0 1B0 1F1 1B1\n", o.String())
	for name, want := range map[string]string{
		"fused":   "0F0 0-1, 0F1 4-5, 0B0 5-7, 0B1 8-10, 1F0 1-2, 1B0 2-4, 1F1 5-6, 1B1 6-8",
		"serial":  "0F0 0-1, 0F1 1-2, 0B0 4-6, 0B1 7-9, 1F0 1-2, 1B0 2-4, 1F1 4-5, 1B1 5-7",
		"overlap": "0F0 0-1, 0F1 4-5, 0B0 4-6, 0B1 9-11, 1F0 1-2, 1B0 2-4, 1F1 6-7, 1B1 7-9",
	} {
		p := wiring.Pipeline{Shape: graph.Shape{Ranks: 2, Microbatches: 2}, Order: o, Pairs: pairings[name]}
		trace := ordertest.Relax(t, ordertest.Graph(t, p), ordertest.Unit)
		var got []string
		for i, task := range trace.Graph.Tasks() {
			if task.Kind.Compute() {
				got = append(got, fmt.Sprintf("%s %d-%d", task, trace.Span(i).Start, trace.Span(i).End))
			}
		}
		require.Equal(t, want, strings.Join(got, ", "), name)
	}
}

// follow runs an order by the definition of the pairings alone: each rank does
// its list in order, and finds by trying when the next entry can start.
func follow(t rapid.TB, o order.Order, stages int32, pairing wiring.Pairing, cost func(order.Action) time.Duration) time.Duration {
	released := map[order.Action]time.Duration{}
	ready := func(a order.Action) (start time.Duration, ok bool) {
		var needs []order.Action
		switch {
		case a.Kind == graph.Forward && a.Stage > 0:
			needs = append(needs, order.Action{Kind: graph.Forward, Stage: a.Stage - 1, Microbatch: a.Microbatch})
		case a.Kind == graph.Backward || a.Kind == graph.InputGradient:
			needs = append(needs, order.Action{Kind: graph.Forward, Stage: a.Stage, Microbatch: a.Microbatch})
			if a.Stage < stages-1 {
				needs = append(needs, order.Action{Kind: graph.InputGradient, Stage: a.Stage + 1, Microbatch: a.Microbatch})
			}
		case a.Kind == graph.WeightGradient:
			needs = append(needs, order.Action{Kind: graph.InputGradient, Stage: a.Stage, Microbatch: a.Microbatch})
		}
		for _, need := range needs {
			end, done := released[need]
			if !done {
				return 0, false
			}
			start = max(start, end)
		}
		return start, true
	}
	release := func(a order.Action, end time.Duration) {
		if a.Pair = false; a.Kind == graph.Backward {
			a.Kind = graph.InputGradient
		}
		if a.Kind != graph.WeightGradient {
			released[a] = end
		}
	}
	next, free := make([]int, len(o)), make([]time.Duration, len(o))
	for moved := true; moved; {
		moved = false
		for r, actions := range o {
			for next[r] < len(actions) {
				a := actions[next[r]]
				start, ok := ready(a)
				if !ok {
					break
				}
				start = max(start, free[r])
				if a.Pair && pairing != wiring.Serial {
					b := actions[next[r]+1]
					other, ok := ready(b)
					if !ok {
						break
					}
					start = max(start, other)
					if pairing == wiring.Overlap {
						free[r] = start + max(cost(a), cost(b))
						release(a, free[r])
						release(b, free[r])
						next[r], moved = next[r]+2, true
						continue
					}
				}
				free[r] = start + cost(a)
				release(a, free[r])
				next[r], moved = next[r]+1, true
			}
		}
	}
	var end time.Duration
	for r := range o {
		require.Equal(t, len(o[r]), next[r], "deadlock")
		end = max(end, free[r])
	}
	return end
}

// A graph with pairs takes as long as its order by the definitions.
func TestPairedGraphs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 5).Draw(t, "ranks")
		name, shape := "dualpipev", graph.Shape{Ranks: ranks, Microbatches: 2*ranks + rapid.IntRange(0, 6).Draw(t, "more")}
		if rapid.Bool().Draw(t, "both ways") {
			name, shape = "dualpipe", graph.Shape{Ranks: 2 * ranks, Microbatches: 2 * shape.Microbatches}
		}
		p := ordertest.Shaped(t, name, shape)
		costs := rapid.SliceOfN(rapid.IntRange(0, 5), 4, 4).Draw(t, "costs")
		spread := rapid.IntRange(0, 3).Draw(t, "spread")
		cost := func(k graph.Kind, stage, microbatch int32) time.Duration {
			return time.Duration(costs[k] + spread*int(3*stage+microbatch)%4)
		}
		for name, pairing := range pairings {
			p.Pairs = pairing
			want := follow(t, p.Order, int32(len(p.Placement.First)), pairing, func(a order.Action) time.Duration { return cost(a.Kind, a.Stage, a.Microbatch) })
			got := ordertest.Relax(t, ordertest.Graph(t, p), func(task *graph.Task) time.Duration {
				if !task.Kind.Compute() {
					return 0
				}
				return cost(task.Kind, task.Stage, task.Microbatch)
			})
			require.Equal(t, want, graph.Summarize(got).Makespan, name)
		}
	})
}
