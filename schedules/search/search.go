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
	// LowerBound is a span that no order is below. It is proven, but not always
	// reached by any order.
	LowerBound time.Duration
}

// Gap is how far the span is above the lower bound, as a fraction of the bound.
func (r Solution) Gap() float64 {
	if r.LowerBound <= 0 {
		return 0
	}
	return float64(r.Span)/float64(r.LowerBound) - 1
}

// Find searches for the order with the shortest span, and among those the
// shortest makespan. It tries the published orders that fit, builds others, by
// policies under several limits or over a V by building blocks, and improves the best
// by moving passes. What it does depends on nothing but the problem, so that equal
// input gives equal orders.
func Find(ctx context.Context, in Problem) (Solution, error) {
	q, err := in.prepare()
	if err != nil {
		return Solution{}, err
	}
	s := &search{problem: q, evaluator: newEvaluator(q), builder: newBuilder(q), bound: q.lowerBound()}
	s.offer(q.sequential())
	for _, seqs := range q.published() {
		if q.fit(seqs, q.limit) {
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
	if got := s.evaluator.run(seqs); s.best == nil || got.better(s.score) {
		s.best, s.score = seqs, got
	}
}

func (s *search) result() Solution {
	return Solution{
		Order: s.problem.order(s.best), Span: time.Duration(s.score.span),
		Makespan: time.Duration(s.score.makespan), LowerBound: time.Duration(s.bound),
	}
}

// published lists the orders that are known: 1F1B with the backward in two halves,
// ZB-H1 and ZB-H2 (Qi et al. 2023, section 2), or over a V V-Min, V-Half and ZBV (Qi et
// al. 2024). To make the first two of a V takes time with the square of its passes, so
// that there is a most.
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

// try builds an order under a limit and runs it; it returns nil where its span becomes
// longer than most, or it does not fit.
func (s *search) try(p policy, limit []int64, most int64) (sequences, score) {
	seqs := s.builder.build(p, limit, most)
	if seqs == nil || !s.fit(seqs, s.limit) {
		return nil, impossible
	}
	return seqs, s.evaluator.runWithin(seqs, most)
}
