package schedules

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// inTurn orders a family of schedules: 1F1B, its interleaved form, and
// those with split backwards. warmUp is how many forwards a rank runs before its
// first backward; late how many input gradients a weight gradient waits, and nil
// where backwards are whole.
func inTurn(warmUp, late func(s graph.Shape, rank int) int) func(graph.Shape, []int32) order.Order {
	return func(s graph.Shape, _ []int32) order.Order {
		o := make(order.Order, s.Ranks)
		for r := range o {
			forwards, backwards := turns(s, r)
			o[r] = alternate(forwards, backwards, warmUp(s, r))
			if late != nil {
				o[r] = splitBackwards(o[r], late(s, r))
			}
		}
		return o
	}
}

// ahead warms up with so many forwards for every rank behind a rank.
func ahead(factor int) func(graph.Shape, int) int {
	return func(s graph.Shape, rank int) int { return factor * (s.Ranks - 1 - rank) }
}

// behind delays by so many input gradients for every rank before a rank.
func behind(factor int) func(graph.Shape, int) int {
	return func(_ graph.Shape, rank int) int { return factor * rank }
}

// turns lists the forwards of a rank and its full backwards, in the order in
// which a looped schedule takes them. Microbatches go in rounds: a round passes
// through all of the rank's chunks before the next begins, forwards from the
// first chunk on, backwards from the last. Chunk k of rank r is stage k·P + r.
//
//	V = 2, rounds of 2:  F  0.0 0.1 1.0 1.1 | 0.2 0.3 1.2 1.3    chunk.microbatch
//	                     B  1.0 1.1 0.0 0.1 | 1.2 1.3 0.2 0.3
func turns(s graph.Shape, rank int) (forwards, backwards []order.Action) {
	chunks, round := max(1, s.Virtual), round(s)
	forwards = make([]order.Action, 0, chunks*s.Microbatches)
	backwards = make([]order.Action, 0, chunks*s.Microbatches)
	for first := 0; first < s.Microbatches; first += round {
		for k := range chunks {
			for m := first; m < min(first+round, s.Microbatches); m++ {
				forwards = append(forwards, order.F(k*s.Ranks+rank, m))
				backwards = append(backwards, order.B((chunks-1-k)*s.Ranks+rank, m))
			}
		}
	}
	return forwards, backwards
}

// round counts the microbatches of a round: the group that is asked for,
// or else as many equal rounds as hold at least P microbatches each.
func round(s graph.Shape) int {
	if s.Group > 0 {
		return s.Group
	}
	return s.Microbatches / max(1, s.Microbatches/s.Ranks)
}

// alternate runs warmUp forwards, then one forward and one backward in turn, then
// the backwards that are left.
//
//	warmUp = 2:  F F  F B F B F B  B B
func alternate(forwards, backwards []order.Action, warmUp int) []order.Action {
	actions := make([]order.Action, 0, len(forwards)+len(backwards))
	n := len(forwards)
	warmUp = min(warmUp, n)
	for k := range n + warmUp {
		if k < n {
			actions = append(actions, forwards[k])
		}
		if k >= warmUp {
			actions = append(actions, backwards[k-warmUp])
		}
	}
	return actions
}

// splitBackwards replaces every B by its halves: I in its place, and W so many
// input gradients later, first in, first out. What is left comes at the end.
//
//	delay = 1:  F B F B B  →  F I0 F I1 W0 I2 W1 W2
func splitBackwards(actions []order.Action, delay int) []order.Action {
	split := make([]order.Action, 0, 2*len(actions))
	var waiting []order.Action
	for _, a := range actions {
		if a.Kind != graph.Backward {
			split = append(split, a)
			continue
		}
		input, weight := a, a
		input.Kind, weight.Kind = graph.InputGradient, graph.WeightGradient
		split, waiting = append(split, input), append(waiting, weight)
		if len(waiting) > delay {
			split, waiting = append(split, waiting[0]), waiting[1:]
		}
	}
	return append(split, waiting...)
}
