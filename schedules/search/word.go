package search

import (
	"slices"

	"psim/schedules/order"
)

// A word is the order of one rank: letters for F, I and W of each of its stages.
// The n-th time that a letter stands there is microbatch n. words has one for
// every rank.
type words [][]byte

func (w words) clone() words {
	c := make(words, len(w))
	for r := range w {
		c[r] = slices.Clone(w[r])
	}
	return c
}

// order spells the words out.
func (q *problem) order(w words) order.Order {
	o := make(order.Order, len(w))
	for r, word := range w {
		var done [letters]int32
		o[r] = make([]order.Action, len(word))
		for i, l := range word {
			stage := int32(q.seat(r, int(l/3)).stage)
			o[r][i] = order.Action{Kind: passes[kindOf[l]], Stage: stage, Microbatch: done[l]}
			done[l]++
		}
	}
	return o
}

// legal reports whether a word never puts a pass before the one of its rank that
// it needs, and never holds more than a limit.
func (q *problem) legal(r int, word []byte, limit int64) bool {
	var done [letters]int
	level := int64(0)
	for _, l := range word {
		i, k := q.seat(r, int(l/3)).first+done[l], kindOf[l]
		done[l]++
		if k != letterF && done[l] > done[l-1] || l == upF && done[l] > done[letterF] || l == letterI && q.lanes > 1 && done[l] > done[upI] {
			return false
		}
		if level+q.start[k][i] > limit {
			return false
		}
		level += q.net(int(k), i)
	}
	return true
}

// fit reports whether all words are legal.
func (q *problem) fit(w words, limit []int64) bool {
	for r := range w {
		if !q.legal(r, w[r], limit[r]) {
			return false
		}
	}
	return true
}

// rankWord warms up with a number of forwards, then takes I and F in turn. W
// follows so many I behind; what is left of it comes last.
func rankWord(microbatches, warmUp, behind int) []byte {
	warmUp = max(1, min(warmUp, microbatches))
	word := slices.Repeat([]byte{letterF}, warmUp)
	f, w := warmUp, 0
	for m := range microbatches {
		word = append(word, letterI)
		if m >= behind {
			word = append(word, letterW)
			w++
		}
		if f < microbatches {
			word = append(word, letterF)
			f++
		}
	}
	return append(word, slices.Repeat([]byte{letterW}, microbatches-w)...)
}

// published lists the orders that are known: 1F1B with the backward in two
// halves, ZB-H1 and ZB-H2 (Qi et al. 2023, section 2).
func (q *problem) published() []words {
	list := make([]words, 3)
	for r := range q.p {
		list[0] = append(list[0], rankWord(q.m, q.p-r, 0))
		list[1] = append(list[1], rankWord(q.m, q.p-r, r))
		list[2] = append(list[2], rankWord(q.m, 2*(q.p-1-r)+1, 2*r))
	}
	return list
}

// sequential does one microbatch after another on every rank, which fits
// whenever anything does.
func (q *problem) sequential() words {
	w := make(words, q.p)
	for r := range w {
		w[r] = slices.Repeat(q.byItself(), q.m)
	}
	return w
}
