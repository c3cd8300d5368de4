package schedules

import (
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// oneForwardOneBackward warms up with P − 1 − r forwards on rank r, then runs
// one forward and one backward in turn (Narayanan et al. 2019 and 2021, the
// flushed variant). Its bubble is GPipe's; its memory is bounded by P, not M.
//
//	rank 0: F0 F1 F2 B0 F3 B1 F4 B2 B3 B4
//	rank 1: F0 F1 B0 F2 B1 F3 B2 F4 B3 B4
//	rank 2: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
func oneForwardOneBackward() Schedule {
	return Schedule{
		Name: "1f1b", Summary: "a warm-up, then one forward and one backward in turn",
		About: "A rank starts backwards as soon as one can run, and from then on alternates with forwards. " +
			"The bubble is GPipe's, but rank r holds at most P-r microbatches, so M can grow: the usual " +
			"choice.",
		Bubble: "(P-1)/(M+P-1)", Memory: "min(M, P-r)", Paper: "Narayanan et al. 2021, PipeDream-flush",
		Pipelined: true, order: alternatingOrder(warmUpPerRank(1), nil),
	}
}

// pipedream never drains the pipeline: every backward updates its stage at
// once, and the next microbatch's forward uses the weights as they are, so that a
// steady state has no bubble (Narayanan et al. 2019, "PipeDream", section 3.2).
// A backward needs the weights that its own forward used. So a stage stashes a version
// of them for every microbatch in flight (section 3.3), at most P − s on stage s. The
// stages may use different versions for one microbatch, because vertical sync is off, as
// in PipeDream by default. The order is 1F1B's, with U for an update and microbatches
// omitted:
//
//	P = 2:   rank 0   F F · B U F B U F B U … B U
//	         rank 1   · F B U F B U F B U …
//
// The forward of microbatch m on stage s thus uses the weights after
// max(0, m − (P − 1 − s)) updates. A graph holds one run of M microbatches, which
// fills and drains the pipeline once.
func pipedream() Schedule {
	return Schedule{
		Name: "pipedream", Summary: "1F1B without a flush: an update after every backward, weights stashed",
		About: "The pipeline never empties: every backward updates the weights at once, and a microbatch's " +
			"backward uses the version that its forward used. No bubble in steady state, at the price of " +
			"stale weights and of up to P-r versions of them. What trains is not what a single device trains.",
		Bubble: "(P-1)/(M+P-1), and 0 in steady state", Memory: "min(M, P-r)",
		Paper:      "Narayanan et al. 2019, PipeDream",
		Constraint: "no parameter on two stages, data = 1", Pipelined: true, Stashing: true,
		order: alternatingOrder(warmUpPerRank(1), nil), legal: wiring.OneReplica,
	}
}

// zbH1 splits the backwards of 1F1B (Qi et al. 2023, "Zero Bubble Pipeline
// Parallelism", section 2.1, figure 2): every rank warms up as in 1F1B, and
// rank r delays every weight gradient by r input gradients, so that every rank
// holds at most P microbatches, as rank 0 of 1F1B does.
//
//	rank 0: F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
//	rank 1: F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//	rank 2: F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
func zbH1() Schedule {
	return Schedule{
		Name: "zb-h1", Summary: "1F1B with I and W in place of B, W up to r steps late",
		About: "The backward is cut in two: the input gradient, for which the rank before waits, and the " +
			"weight gradient, which nobody waits for and which fills gaps. A third of 1F1B's bubble where " +
			"F, I and W are equal, with the memory of 1F1B's first rank on all.",
		Bubble: "(P-1)(F+I-W)/T, M>=P", Memory: "min(M, P)", Paper: "Qi et al. 2023, Zero Bubble",
		Pipelined: true, order: alternatingOrder(warmUpPerRank(1), delayPerRank(1)),
	}
}

// zbH2 doubles ZB-H1's warm-up and delay, and with them the memory, so that
// forwards fill the ramp at the start and weight gradients the ramp at the end
// (Qi et al. 2023, section 2.2, figure 3). If F = I = W, no rank is idle between its
// first action and its last.
//
//	rank 0: F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 …
//	rank 1: F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 …
//	rank 2: F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 …
func zbH2() Schedule {
	return Schedule{
		Name: "zb-h2", Summary: "twice zb-h1's warm-up, for no bubble in a rank's own span",
		About: "With about twice the memory of zb-h1, enough forwards come first that a rank, once begun, " +
			"never waits if times are equal. Only the ramps remain, which steps that follow each " +
			"other can overlap if the optimizer does not make all ranks wait.",
		Bubble: "max(0, (P-1)(F+I-2W))/T of span, M>=2P-1", Memory: "min(M, 2P-1)",
		Paper:     "Qi et al. 2023, Zero Bubble",
		Pipelined: true, order: alternatingOrder(warmUpPerRank(2), delayPerRank(2)),
	}
}

// alternatingOrder orders a family of schedules: 1F1B, its interleaved form, and those
// with split backwards. warmUp returns how many forwards a rank runs before its first
// backward. late returns by how many input gradients a weight gradient is delayed; nil
// keeps backwards whole.
func alternatingOrder(warmUp, late func(s graph.Shape, rank int) int) func(graph.Shape, []int32) order.Order {
	return func(s graph.Shape, _ []int32) order.Order {
		n := max(1, s.Virtual) * s.Microbatches
		// Reused from rank to rank.
		forwards, backwards := make([]order.Action, 0, n), make([]order.Action, 0, n)
		return byRank(func(s graph.Shape, r int) []order.Action {
			forwards, backwards = passesByRound(s, r, forwards[:0], backwards[:0])
			actions := alternate(forwards, backwards, warmUp(s, r))
			if late == nil {
				return actions
			}
			return splitBackwards(actions, late(s, r))
		})(s, nil)
	}
}

// warmUpPerRank warms up with a number of forwards for every later rank.
func warmUpPerRank(factor int) func(graph.Shape, int) int {
	return func(s graph.Shape, rank int) int { return factor * (s.Ranks - 1 - rank) }
}

// delayPerRank delays by a number of input gradients for every earlier rank.
func delayPerRank(factor int) func(graph.Shape, int) int {
	return func(_ graph.Shape, rank int) int { return factor * rank }
}

// passesByRound lists the forwards of a rank and its full backwards, each in the order in
// which a looped schedule runs them. Microbatches go in rounds: a round passes
// through all of the rank's chunks before the next begins, forwards from the
// first chunk on, backwards from the last. Chunk k of rank r is stage k·P + r.
//
//	V = 2, rounds of 2:  F  0.0 0.1 1.0 1.1 | 0.2 0.3 1.2 1.3    chunk.microbatch
//	                     B  1.0 1.1 0.0 0.1 | 1.2 1.3 0.2 0.3
func passesByRound(s graph.Shape, rank int, forwards, backwards []order.Action) (_, _ []order.Action) {
	chunks, round := max(1, s.Virtual), roundSize(s)
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

// roundSize counts the microbatches of a round: the configured group, or else the size
// with the most equal rounds of at least P microbatches each.
func roundSize(s graph.Shape) int {
	if s.Group > 0 {
		return s.Group
	}
	return s.Microbatches / max(1, s.Microbatches/s.Ranks)
}

// alternate runs warmUp forwards, then one forward and one backward in turn, then
// the remaining backwards.
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

// splitBackwards replaces every B by its halves: I in its place, and W delay input
// gradients later, first in, first out. The remaining W come at the end.
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
