package search

import (
	"context"
	"time"

	"psim/schedules/order"
)

// A Result is the best order that was found.
type Result struct {
	Order order.Order
	// Span is the longest of the ranks' own spans, from first start to last end.
	Span, Makespan time.Duration
	// LowerBound is a span that no order is below. It is proven, but not always
	// reached by any order.
	LowerBound time.Duration
}

// Gap is how far the span is above the lower bound, as a fraction of the bound.
func (r Result) Gap() float64 {
	if r.LowerBound <= 0 {
		return 0
	}
	return float64(r.Span)/float64(r.LowerBound) - 1
}

// Find searches for the order with the shortest span, and among those the
// shortest makespan. It tries the published orders that fit, builds others by
// policies under several limits, and improves the best by moving passes. What it
// does depends on nothing but the problem, so that equal input gives equal
// orders.
func Find(ctx context.Context, in Problem) (Result, error) {
	q, err := in.prepare()
	if err != nil {
		return Result{}, err
	}
	if in.Folded {
		return q.findFolded(ctx)
	}
	s := &search{problem: q, evaluator: newEvaluator(q), builder: newBuilder(q), bound: q.lowerBound()}
	s.offer(q.sequential())
	for _, w := range q.published() {
		if q.fit(w, q.limit) {
			s.offer(w)
		}
	}
	tries, levels := effort(3 * q.p * q.m)
	for _, limit := range q.ladder(levels) {
		s.level(limit, policies()[:tries], moveTasks/levels, levels == 1)
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
	}
	return s.result(), nil
}

// The work that Find does, in passes placed and passes run again: about a
// hundredth of a second each. Of policies it tries the fewest at least.
const (
	buildTasks = 450_000
	moveTasks  = 700_000
	fewest     = 12
)

// effort says how many policies to try under how many limits.
func effort(tasks int) (tries, levels int) {
	const mostLevels = 16
	builds := buildTasks / tasks
	tries = max(fewest, min(builds, len(policies())))
	return tries, max(1, min(builds/tries, mostLevels))
}

// search is the state of one Find.
type search struct {
	*problem
	evaluator *evaluator
	builder   *builder
	bound     int64
	best      words
	score     score
}

// offer keeps an order if it is the best so far.
func (s *search) offer(w words) {
	if got := s.evaluator.run(w); s.best == nil || got.better(s.score) {
		s.best, s.score = w, got
	}
}

func (s *search) result() Result {
	return Result{
		Order: s.problem.order(s.best), Span: time.Duration(s.score.span),
		Makespan: time.Duration(s.score.makespan), LowerBound: time.Duration(s.bound),
	}
}

// level searches under one limit: it builds an order by every policy, and moves
// passes of the best. A search that has only this level goes on from what it knows.
func (s *search) level(limit []int64, policies []policy, work int, only bool) {
	best, score := words(nil), impossible
	if only {
		best, score = s.best, s.score
	}
	for i, p := range policies {
		if i >= fewest && s.score.span <= s.bound {
			break // only the makespan could still get shorter
		}
		w := s.builder.build(p, limit, score.span)
		if w == nil {
			continue
		}
		if got := s.evaluator.runWithin(w, score.span); got.better(score) {
			best, score = w.clone(), got
		}
	}
	if best == nil {
		return
	}
	s.offer(best)
	if score.span > s.bound {
		s.offer(s.improve(best, limit, work))
	}
}

// ladder lists the limits to search under: the given one and lower ones, because
// the construction does not always gain by more room. They are whole multiples
// of what one microbatch needs, and with few microbatches all of them; more
// memory then only adds to the list.
func (q *problem) ladder(levels int) [][]int64 {
	unit, most := make([]int64, q.p), int64(1)
	for r := range q.p {
		for m := range q.m {
			unit[r] = max(unit[r], q.alone(r, m))
		}
		if unit[r] > 0 {
			most = max(most, min(int64(q.m), (q.limit[r]+unit[r]-1)/unit[r]))
		}
	}
	step := int64((q.m + levels - 1) / levels)
	var list [][]int64
	for n := step; n < most; n += step {
		limit := make([]int64, q.p)
		for r := range limit {
			limit[r] = min(q.limit[r], n*unit[r])
		}
		list = append(list, limit)
	}
	return append(list, q.limit)
}
