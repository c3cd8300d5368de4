package wiring_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file of testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// tb is what *testing.T and *rapid.T share.
type tb interface {
	require.TestingT
	Helper()
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

// served are the shapes up to a size that a schedule serves.
func served(s schedules.Schedule, ranks, microbatches, virtual int) []graph.Shape {
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
