package costmodel

import (
	"fmt"
	"time"

	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A Fused names the fused collective that a spelled-out one does the work of. Algorithm is one of
// [link.Algorithms], or "" if no fused collective moves the same chunks.
type Fused struct {
	Kind      graph.Kind
	Algorithm string
}

// SpelledCosts prices a spelled-out collective on a machine. Received data is added or copied while
// it arrives, so only sending takes time.
//
// The messages of a collective that a library has as well take, one after another, the time of
// the fused collective over the same ranks, so that a sum of gradients takes the same time in a
// training and by itself. Messages of any other take what the link between their ranks takes.
func SpelledCosts(m Machine, g *graph.Graph, as Fused) (graph.Costs, error) {
	if err := m.check(g); err != nil {
		return graph.Costs{}, err
	}
	price, err := m.spelled(g, as)
	if err != nil {
		return graph.Costs{}, err
	}
	return graph.Costs{Task: func(t *graph.Task) graph.Cost {
		if t.Kind.Message() {
			return price(t)
		}
		return graph.Cost{}
	}}, nil
}

// spelled returns the price of messages. It divides the time of a fused collective among its steps:
// what it takes without any bytes equally, as delays, and the rest in proportion to the bytes that
// a rank sends. Each message rounds down to a nanosecond.
func (m *Machine) spelled(g *graph.Graph, as Fused) (func(*graph.Task) graph.Cost, error) {
	n := g.Ranks()
	if as.Algorithm == "" || n < 2 {
		return m.message, m.checkMessages(g)
	}
	var messages, sent int64 // by all ranks
	for i := range g.Classes {
		if t := &g.Classes[i]; t.Kind.Message() {
			messages, sent = messages+1, sent+t.Bytes
		}
	}
	ranks, bytes := graph.InOrder(n).First, sent/int64(link.Moves(as.Kind)*(n-1))
	l := m.Group(ranks)
	l.Algorithm = as.Algorithm
	start, took := l.CollectiveTime(as.Kind, n, 0), l.CollectiveTime(as.Kind, n, bytes)
	if took >= units.Longest {
		key, check := m.cause(as.Kind, ranks, 1, bytes)
		return nil, tooLong(key, fmt.Sprintf("the %s of %s over %d ranks", as.Kind, units.FormatBytes(bytes), n), check)
	}
	steps, perRank := time.Duration(messages)/time.Duration(n), time.Duration(sent+int64(n)-1)/time.Duration(n)
	return func(t *graph.Task) graph.Cost {
		return graph.Cost{
			Busy:  time.Duration(fraction(int64(took-start), time.Duration(t.Bytes), perRank)),
			Delay: start / steps, Link: 4*t.Rank + 1,
		}
	}, nil
}
