package schedules_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// readJSON decodes a file of testdata.
func readJSON[T any](t *testing.T, name string) (v T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

// tb is what *testing.T and *rapid.T share.
type tb interface {
	require.TestingT
	Helper()
}

// orderOf generates the order of a schedule of the catalog.
func orderOf(t tb, name string, ranks, microbatches int, placement ...int32) order.Order {
	t.Helper()
	s, err := schedules.Find(name)
	require.NoError(t, err)
	o, err := s.Order(graph.Shape{Ranks: ranks, Microbatches: microbatches}, placement)
	require.NoError(t, err)
	return o
}

// shaped generates the order of a schedule for any shape, and its placement.
func shaped(t tb, name string, shape graph.Shape) (order.Order, []int32) {
	t.Helper()
	s, err := schedules.Find(name)
	require.NoError(t, err)
	o, err := s.Order(shape, nil)
	require.NoError(t, err)
	return o, s.Placement(shape).First
}

// looped is a schedule of the catalog with several stages per rank, ready to be
// wired.
func looped(t tb, name string, shape graph.Shape) wiring.Pipeline {
	t.Helper()
	s, err := schedules.Find(name)
	require.NoError(t, err)
	p, err := s.Pipeline(shape, nil)
	require.NoError(t, err)
	return p
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

// text strips the indentation of a two-dimensional schedule.
func text(s string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(s), "\n") {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
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

func write(t tb, o order.Order) string {
	var b bytes.Buffer
	require.NoError(t, o.WriteCSV(&b))
	return b.String()
}
