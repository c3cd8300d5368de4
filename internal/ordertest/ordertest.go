// Package ordertest holds what tests of schedules and of graphs share: orders and
// graphs of the catalog, their texts, and a slow second way to run them.
package ordertest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// Order generates the order of a schedule of the catalog.
func Order(t rapid.TB, name string, ranks, microbatches int, placement ...int32) order.Order {
	t.Helper()
	s, err := schedules.Find(name)
	require.NoError(t, err)
	o, err := s.Order(graph.Shape{Ranks: ranks, Microbatches: microbatches}, placement)
	require.NoError(t, err)
	return o
}

// Pipeline returns a schedule of the catalog, ready to be wired.
func Pipeline(t rapid.TB, name string, ranks, microbatches int, placement ...int32) wiring.Pipeline {
	t.Helper()
	p := Shaped(t, name, graph.Shape{Ranks: ranks, Microbatches: microbatches}, placement...)
	p.Placement = graph.Placement{First: placement}
	return p
}

// Shaped is Pipeline for any shape.
func Shaped(t rapid.TB, name string, shape graph.Shape, placement ...int32) wiring.Pipeline {
	t.Helper()
	s, err := schedules.Find(name)
	require.NoError(t, err)
	p, err := s.Pipeline(shape, placement)
	require.NoError(t, err)
	return p
}

// Graph wires a pipeline and requires the result to be well formed.
func Graph(t rapid.TB, p wiring.Pipeline) *graph.Graph {
	t.Helper()
	g, err := p.Graph()
	require.NoError(t, err)
	require.NoError(t, g.Validate())
	return g
}

// Served lists the shapes up to a size that a schedule serves.
func Served(s schedules.Schedule, ranks, microbatches, virtual int) []graph.Shape {
	var shapes []graph.Shape
	for p := 1; p <= ranks; p++ {
		for m := 1; m <= microbatches; m++ {
			for v := 1; v <= virtual; v++ {
				shape := s.Sized(graph.Shape{Ranks: p, Microbatches: m, Virtual: v})
				if s.Check(shape) == nil {
					shapes = append(shapes, shape)
				}
			}
		}
	}
	return shapes
}

// Parse reads an order from the two-dimensional notation: a line per rank.
func Parse(t rapid.TB, text string) order.Order {
	t.Helper()
	var o order.Order
	for line := range strings.Lines(strings.TrimSpace(text)) {
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

// Text strips the indentation of a two-dimensional schedule.
func Text(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(s)) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// CSV is the text of an order's file.
func CSV(t rapid.TB, o order.Order) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, o.WriteCSV(&b))
	return b.String()
}

// Split replaces every B by I and W.
func Split(o order.Order) order.Order {
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

// Dump writes every task of a graph with its index, stream and dependencies.
func Dump(g *graph.Graph) string {
	var b strings.Builder
	for i := range int32(g.Len()) {
		fmt.Fprintf(&b, "%d: %s", i, g.Describe(i))
		for j, d := range g.Deps(i) {
			b.WriteString([]string{" after ", ", "}[min(j, 1)])
			fmt.Fprintf(&b, "%d: %s", d, g.Task(d))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Spans lists when the tasks of a trace ran.
func Spans(t *graph.Trace) []graph.Span {
	spans := make([]graph.Span, t.Graph.Len())
	for i := range spans {
		spans[i] = t.Span(int32(i))
	}
	return spans
}

// Measured makes a trace of a simulation's times, as if they had been measured.
func Measured(t *graph.Trace) *graph.Trace {
	return &graph.Trace{Graph: t.Graph, Spans: Spans(t), Persistent: t.Persistent}
}

// Memory lists the changes of memory of a trace in order of time. At equal times, ends of tasks
// come before starts, except for tasks that take no time.
func Memory(t *graph.Trace) []graph.MemoryEvent {
	var events []graph.MemoryEvent
	for _, changes := range t.ChangesByRank() {
		events = slices.AppendSeq(events, changes)
	}
	SortMemory(t, events)
	return events
}

// SortMemory puts changes of memory into that order.
func SortMemory(t *graph.Trace, events []graph.MemoryEvent) {
	phase := func(e graph.MemoryEvent) int {
		if span := t.Span(e.Task); span.Start != span.End && e.At == span.End {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(events, func(a, b graph.MemoryEvent) int {
		return cmp.Or(cmp.Compare(a.At, b.At), phase(a)-phase(b), cmp.Compare(a.Task, b.Task))
	})
}

// Unit is the cost model F1 B2 I1 W1, everything else free.
func Unit(t *graph.Task) time.Duration {
	switch t.Kind {
	case graph.Forward, graph.InputGradient, graph.WeightGradient:
		return 1
	case graph.Backward:
		return 2
	}
	return 0
}

// Relax runs a graph the slow way: it raises the start of every task until
// every dependency and the task before it on its stream end earlier. Fused
// collectives are taken for tasks of one rank.
func Relax(t rapid.TB, g *graph.Graph, cost func(*graph.Task) time.Duration) *graph.Trace {
	t.Helper()
	spans := make([]graph.Span, g.Len())
	for round := 0; ; round++ {
		require.LessOrEqual(t, round, g.Len(), "deadlock")
		moved := false
		free := make([]time.Duration, len(g.Streams))
		for i := range spans {
			task := g.Task(int32(i))
			start := free[task.Stream]
			for _, d := range g.Deps(int32(i)) {
				start = max(start, spans[d].End)
			}
			span := graph.Span{Start: start, End: start + cost(&task)}
			moved = moved || span != spans[i]
			spans[i], free[task.Stream] = span, span.End
		}
		if !moved {
			return &graph.Trace{Graph: g, Spans: spans}
		}
	}
}

// Peaks is the number of activations that every rank holds at most, under Unit.
func Peaks(t rapid.TB, p wiring.Pipeline) []int {
	t.Helper()
	var peak []int
	for _, r := range graph.Summarize(Relax(t, Graph(t, p), Unit)).Ranks {
		peak = append(peak, r.PeakInFlight)
	}
	return peak
}
