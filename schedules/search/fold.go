package search

import (
	"cmp"
	"context"
	"slices"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// The work that a search over a V does, in passes placed and run again, and the
// number of orders that it builds at most.
const (
	vBuildTasks = 1_000_000
	vMoveTasks  = 500_000
	mostBuilds  = 600
)

// findFolded searches for the order of a V: it tries the published orders that fit,
// repeats building blocks, fills the gaps of the best of them in other ways, and
// improves the best order by moving passes.
func (q *problem) findFolded(ctx context.Context) (Result, error) {
	s := &vSearch{search: search{problem: q, evaluator: newEvaluator(q), bound: q.lowerBound()}, builder: newVBuilder(q)}
	s.offer(q.sequential())
	for _, w := range q.publishedV() {
		if q.fit(w, q.limit) {
			s.offer(w)
		}
	}
	if err := s.tryBlocks(ctx); err != nil {
		return Result{}, err
	}
	if s.score.span > s.bound {
		s.offer(s.improve(s.best, q.limit, vMoveTasks))
	}
	return s.result(), nil
}

// vSearch is the state of a search over a V.
type vSearch struct {
	search
	builder *vBuilder
}

// tryBlocks builds orders from blocks: from all that there is time for by the first
// policy, and from the best by all others.
func (s *vSearch) tryBlocks(ctx context.Context) error {
	type tried struct {
		block vBlock
		span  int64
	}
	var good []tried
	policies := vPolicies()
	left := vBuildTasks
	for n, block := range s.vBlocks() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.score.span <= s.bound {
			return nil
		}
		if left < vBuildTasks/3 && len(good) > 0 || n == mostBuilds/2 {
			break
		}
		span := s.tryBlock(block, policies[0])
		left -= s.builder.placed
		if span < impossible.span {
			good = append(good, tried{block, span})
		}
	}
	slices.SortStableFunc(good, func(a, b tried) int { return cmp.Compare(a.span, b.span) })
	for _, g := range good[:min(len(good), mostBuilds/2/len(policies))] {
		for _, p := range policies[1:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			if left <= 0 || s.score.span <= s.bound {
				return nil
			}
			s.tryBlock(g.block, p)
			left -= s.builder.placed
		}
	}
	return nil
}

// tryBlock builds an order and keeps it if it is the best. It returns its span,
// unless that is far from the best.
func (s *vSearch) tryBlock(block vBlock, p vPolicy) int64 {
	most := s.score.span + s.score.span/8
	w := s.builder.build(block, p, s.limit, most)
	if w == nil || !s.fit(w, s.limit) {
		return impossible.span
	}
	got := s.evaluator.runWithin(w, most)
	if got.better(s.score) {
		s.best, s.score = w.clone(), got
	}
	return got.span
}

// mostPublished bounds the number of passes for which the published orders are
// made: that takes time with the square of it.
const mostPublished = 1 << 16

// publishedV lists the orders for a V that are known: V-Min, V-Half and ZBV (Qi et
// al. 2024).
func (q *problem) publishedV() []words {
	var list []words
	for _, name := range []string{"v-min", "v-half", "zbv"} {
		if name != "zbv" && 6*q.p*q.m > mostPublished {
			continue
		}
		row, err := schedules.Find(name)
		if err != nil {
			continue
		}
		o, err := row.Order(graph.Shape{Ranks: q.p, Microbatches: q.m}, nil)
		if err != nil {
			continue
		}
		list = append(list, q.spelled(o))
	}
	return list
}

// spelled is an order as words.
func (q *problem) spelled(o order.Order) words {
	w := make(words, q.p)
	for r, actions := range o {
		for _, a := range actions {
			lane := byte(0)
			if int(a.Stage) >= q.p {
				lane = 3
			}
			for k, kind := range passes {
				if a.Kind == kind {
					w[r] = append(w[r], lane+byte(k))
				}
			}
		}
	}
	return w
}
