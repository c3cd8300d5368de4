package search

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// A sequence is the order of one rank: F, I and W of each of its stages. The n-th
// occurrence of an operation is for microbatch n.
type sequence []op

// sequences holds the sequence of every rank.
type sequences []sequence

func (s sequences) clone() sequences {
	c := make(sequences, len(s))
	for r := range s {
		c[r] = slices.Clone(s[r])
	}
	return c
}

// order makes an order of sequences, with stages and microbatches.
func (q *problem) order(seqs sequences) order.Order {
	actions := make(order.Order, len(seqs))
	for r, seq := range seqs {
		var done [operations]int32
		actions[r] = make([]order.Action, len(seq))
		for i, o := range seq {
			stage := int32(q.slot(r, o.lane()).stage)
			actions[r][i] = order.Action{Kind: passes[o.kind()], Stage: stage, Microbatch: done[o]}
			done[o]++
		}
	}
	return actions
}

// sequences makes sequences of an order: it drops stages and microbatches, and splits
// backwards.
func (q *problem) sequences(from order.Order) sequences {
	seqs := make(sequences, q.p)
	for r, actions := range from {
		seqs[r] = make(sequence, 0, 3*q.lanes*q.m)
		for _, a := range actions {
			first := op(3 * (int(a.Stage) / q.p))
			switch a.Kind {
			case graph.Forward:
				seqs[r] = append(seqs[r], first+opF)
			case graph.Backward:
				seqs[r] = append(seqs[r], first+opI, first+opW)
			case graph.InputGradient:
				seqs[r] = append(seqs[r], first+opI)
			case graph.WeightGradient:
				seqs[r] = append(seqs[r], first+opW)
			}
		}
	}
	return seqs
}

// legal reports whether a rank's sequence runs every pass after the one that it needs,
// and never holds more than a limit.
func (q *problem) legal(r int, seq sequence, limit int64) bool {
	var done [operations]int
	level := int64(0)
	for _, o := range seq {
		i, k := q.slot(r, o.lane()).first+done[o], o.kind()
		done[o]++
		switch { // a pass whose input is missing
		case k != opF && done[o] > done[o-1], o == upF && done[o] > done[opF],
			o == opI && q.lanes > 1 && done[o] > done[upI]:
			return false
		}
		if level+q.start[k][i] > limit {
			return false
		}
		level += q.net(k, i)
	}
	return true
}

// allLegal reports whether all sequences are legal.
func (q *problem) allLegal(seqs sequences, limit []int64) bool {
	for r := range seqs {
		if !q.legal(r, seqs[r], limit[r]) {
			return false
		}
	}
	return true
}

// sequential runs one microbatch after another on every rank. It fits if any order fits.
func (q *problem) sequential() sequences {
	seqs := make(sequences, q.p)
	for r := range seqs {
		seqs[r] = slices.Repeat(q.oneMicrobatch(), q.m)
	}
	return seqs
}
