package schedules_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
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
