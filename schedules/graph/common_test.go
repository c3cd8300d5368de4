package graph_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// tb is what *testing.T and *rapid.T share.
type tb interface {
	require.TestingT
	Helper()
}

// parse reads an order from the two-dimensional notation: a line per rank.
func parse(t tb, text string) order.Order {
	t.Helper()
	var o order.Order
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var actions []order.Action
		for _, word := range strings.Fields(line) {
			a, err := order.ParseAction(word)
			require.NoError(t, err)
			actions = append(actions, a)
		}
		o = append(o, actions)
	}
	return o
}

// graphOf wires a pipeline and requires the result to be well formed.
func graphOf(t tb, p wiring.Pipeline) *graph.Graph {
	t.Helper()
	g, err := p.Graph()
	require.NoError(t, err)
	require.NoError(t, g.Validate())
	return g
}

// pipeline is a schedule of the catalog, ready to be wired.
func pipeline(t tb, name string, ranks, microbatches int, placement ...int32) wiring.Pipeline {
	t.Helper()
	s, err := schedules.Find(name)
	require.NoError(t, err)
	p, err := s.Pipeline(graph.Shape{Ranks: ranks, Microbatches: microbatches}, placement)
	require.NoError(t, err)
	p.Placement = graph.Placement{First: placement}
	return p
}

// dump writes every task of a graph with its index, stream and dependencies.
func dump(g *graph.Graph) string {
	var b strings.Builder
	for i := range g.Tasks {
		fmt.Fprintf(&b, "%d: %s", i, g.Describe(int32(i)))
		for j, d := range g.Deps(int32(i)) {
			b.WriteString([]string{" after ", ", "}[min(j, 1)])
			fmt.Fprintf(&b, "%d: %s", d, g.Tasks[d])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// unit is the cost model F1 B2 I1 W1, everything else free.
func unit(t *graph.Task) time.Duration {
	switch t.Kind {
	case graph.Forward, graph.InputGradient, graph.WeightGradient:
		return 1
	case graph.Backward:
		return 2
	}
	return 0
}

// relax runs a graph the slow way: it raises the start of every task until
// every dependency and the task before it on its stream end earlier. Fused
// collectives are taken for tasks of one rank.
func relax(t tb, g *graph.Graph, cost func(*graph.Task) time.Duration) *graph.Trace {
	t.Helper()
	spans := make([]graph.Span, len(g.Tasks))
	for round := 0; ; round++ {
		require.LessOrEqual(t, round, len(g.Tasks), "deadlock")
		moved := false
		free := make([]time.Duration, len(g.Streams))
		for i := range g.Tasks {
			task := &g.Tasks[i]
			start := free[task.Stream]
			for _, d := range g.Deps(int32(i)) {
				start = max(start, spans[d].End)
			}
			span := graph.Span{Start: start, End: start + cost(task)}
			moved = moved || span != spans[i]
			spans[i], free[task.Stream] = span, span.End
		}
		if !moved {
			return &graph.Trace{Graph: g, Spans: spans}
		}
	}
}

// peaks is the number of activations that every rank holds at most.
func peaks(t tb, p wiring.Pipeline) []int {
	var peak []int
	for _, r := range graph.Summarize(relax(t, graphOf(t, p), unit)).Ranks {
		peak = append(peak, r.PeakInFlight)
	}
	return peak
}

// split replaces every B by I and W.
func split(o order.Order) order.Order {
	halves := make(order.Order, len(o))
	for r, row := range o {
		for _, a := range row {
			if a.Kind == graph.Backward {
				halves[r] = append(halves[r],
					order.Action{Kind: graph.InputGradient, Stage: a.Stage, Microbatch: a.Microbatch},
					order.Action{Kind: graph.WeightGradient, Stage: a.Stage, Microbatch: a.Microbatch})
			} else {
				halves[r] = append(halves[r], a)
			}
		}
	}
	return halves
}
