// Package search finds compute orders. For one stage per rank and backwards that are
// split into input and weight gradient, it finds the order of F, I and W on every rank
// whose longest span is shortest, under a memory limit. A rank's span runs from its own
// first start to its own last end, as in the zero-bubble papers (Qi et al. 2023, "Zero
// Bubble Pipeline Parallelism").
//
// A [Problem] may also be folded: two stages on every rank, in a V. The search is then
// over orders that repeat a building block (Qi et al. 2024, "Pipeline Parallelism with
// Controllable Memory").
//
// [Find] is fast and heuristic. It also returns a lower bound, which shows how far from
// the optimum its order can be. [Exact] proves the best order of small problems with an
// installed solver.
//
// In every kind of pass the microbatches of a stage run in order. This loses nothing if
// they are all alike, because two that run out of order can swap their numbers. An order
// is then a sequence of F, I and W of a rank's stages, in which no pass is ahead of the
// one that it needs, and a change of an order moves one operation.
package search

import (
	"context"
	"time"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A Solution is the best order that was found.
type Solution struct {
	Order order.Order
	// Span is the longest of the ranks' own spans, from first start to last end.
	Span, Makespan time.Duration
	// LowerBound is a proven lower bound on the span. There may be no order that reaches
	// it.
	LowerBound time.Duration
}

// Gap returns how far the span is above the lower bound, as a fraction of the bound.
func (r Solution) Gap() float64 {
	if r.LowerBound <= 0 {
		return 0
	}
	return float64(r.Span)/float64(r.LowerBound) - 1
}

// Find searches for the order with the shortest span and, among those, the shortest
// makespan. It tries the published orders that fit, builds others, and improves the best
// by moving passes. Others are built by policies under several limits, or over a V from
// building blocks. The result depends on nothing but the problem.
func Find(ctx context.Context, in Problem) (Solution, error) {
	q, err := in.prepare()
	if err != nil {
		return Solution{}, err
	}
	s := &search{problem: q, evaluator: newEvaluator(q), builder: newBuilder(q), bound: q.lowerBound()}
	s.offer(q.sequential())
	for _, seqs := range q.published() {
		if q.allLegal(seqs, q.limit) {
			s.offer(seqs)
		}
	}
	if in.Folded {
		err = s.tryBlocks(ctx)
	} else {
		err = s.tryLimits(ctx)
	}
	if err != nil {
		return Solution{}, err
	}
	return s.result(), nil
}

// search holds the state of one Find.
type search struct {
	*problem
	evaluator *evaluator
	builder   *builder
	bound     int64
	best      sequences
	score     score
}

// offer keeps an order if it is the best so far.
func (s *search) offer(seqs sequences) {
	if got := s.evaluator.run(seqs); s.best == nil || got.betterThan(s.score) {
		s.best, s.score = seqs, got
	}
}

func (s *search) result() Solution {
	return Solution{
		Order: s.problem.order(s.best), Span: time.Duration(s.score.span),
		Makespan: time.Duration(s.score.makespan), LowerBound: time.Duration(s.bound),
	}
}

// published lists the published orders: 1F1B with the backward in two halves, ZB-H1
// and ZB-H2 (Qi et al. 2023, section 2), or over a V V-Min, V-Half and ZBV (Qi et al.
// 2024). Making V-Min and V-Half takes time quadratic in the number of passes, so large
// problems skip them.
func (q *problem) published() []sequences {
	names := []string{"1f1b", "zb-h1", "zb-h2"}
	const most = 1 << 16
	if q.lanes > 1 {
		names = []string{"v-min", "v-half", "zbv"}
		if 6*q.p*q.m > most {
			names = names[2:]
		}
	}
	var list []sequences
	for _, name := range names {
		row, err := schedules.Find(name)
		if err != nil {
			continue
		}
		if o, err := row.Order(graph.Shape{Ranks: q.p, Microbatches: q.m}, nil); err == nil {
			list = append(list, q.sequences(o))
		}
	}
	return list
}

// try builds an order under a limit and runs it. It returns nil if the span becomes
// longer than most, or the order does not fit.
func (s *search) try(p policy, limit []int64, most int64) (sequences, score) {
	seqs := s.builder.build(p, limit, most)
	if seqs == nil || !s.allLegal(seqs, s.limit) {
		return nil, impossible
	}
	return seqs, s.evaluator.runWithin(seqs, most)
}
