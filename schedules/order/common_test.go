package order_test

import (
	"strings"

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

// orderOf generates the order of a schedule of the catalog.
func orderOf(t tb, name string, ranks, microbatches int, placement ...int32) order.Order {
	t.Helper()
	s, err := schedules.Find(name)
	require.NoError(t, err)
	o, err := s.Order(graph.Shape{Ranks: ranks, Microbatches: microbatches}, placement)
	require.NoError(t, err)
	return o
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
