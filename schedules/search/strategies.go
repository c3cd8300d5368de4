package search

import (
	"cmp"
	"context"
	"slices"
)

// The work of a search under limits: passes placed and passes run again, about a
// hundredth of a second each, and the smallest number of policies tried.
const (
	buildTasks     = 450_000
	moveTasks      = 700_000
	fewestPolicies = 12
)

// effort returns how many policies to try, under how many limits.
func effort(tasks int) (tries, levels int) {
	const mostLevels = 16
	builds := buildTasks / tasks
	tries = max(fewestPolicies, min(builds, len(turnPolicies())))
	return tries, max(1, min(builds/tries, mostLevels))
}

// tryLimits builds and improves orders under the limit and lower ones.
func (s *search) tryLimits(ctx context.Context) error {
	tries, levels := effort(3 * s.p * s.m)
	for _, limit := range s.ladder(levels) {
		s.searchLevel(limit, turnPolicies()[:tries], moveTasks/levels, levels == 1)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// searchLevel searches under one limit: it builds an order by every policy, and moves
// passes of the best one. If this is the only limit, it starts from the best order so far.
func (s *search) searchLevel(limit []int64, policies []policy, work int, only bool) {
	best, score := sequences(nil), impossible
	if only {
		best, score = s.best, s.score
	}
	for i, p := range policies {
		if i >= fewestPolicies && s.score.span <= s.bound {
			break // only the makespan could still get shorter
		}
		if seqs, got := s.try(p, limit, score.span); got.betterThan(score) {
			best, score = seqs.clone(), got
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

// ladder lists the limits to search under: the given one and lower ones, because more
// memory does not always lead to a better order. They are multiples of the memory of one
// microbatch, with few microbatches all of them, so that more memory only adds limits to
// the list.
func (q *problem) ladder(levels int) [][]int64 {
	unit, most := make([]int64, q.p), int64(1)
	for r := range q.p {
		for m := range q.m {
			unit[r] = max(unit[r], q.peakOfOne(r, m))
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

// The work of a search over a V: passes placed, passes run again, and the largest number
// of orders built.
const (
	blockBuildTasks = 1_000_000
	blockMoveTasks  = 500_000
	mostBuilds      = 600
)

// tryBlocks builds orders from building blocks and improves the best order.
func (s *search) tryBlocks(ctx context.Context) error {
	if err := s.buildBlocks(ctx); err != nil {
		return err
	}
	if s.score.span > s.bound {
		s.offer(s.improve(s.best, s.limit, blockMoveTasks))
	}
	return nil
}

// buildBlocks builds orders from as many blocks as there is time for by the first
// policy, and from the best of these blocks by all other policies.
func (s *search) buildBlocks(ctx context.Context) error {
	type tried struct {
		block *block
		span  int64
	}
	var good []tried
	policies := blockPolicies()
	left := blockBuildTasks
	for n, block := range s.blocks() {
		if err := ctx.Err(); err != nil || s.score.span <= s.bound {
			return err
		}
		if left < blockBuildTasks/3 && len(good) > 0 || n == mostBuilds/2 {
			break
		}
		span := s.tryBlock(&block, policies[0])
		left -= s.builder.placed
		if span < impossible.span {
			good = append(good, tried{&block, span})
		}
	}
	slices.SortStableFunc(good, func(a, b tried) int { return cmp.Compare(a.span, b.span) })
	for _, g := range good[:min(len(good), mostBuilds/2/len(policies))] {
		for _, p := range policies[1:] {
			if err := ctx.Err(); err != nil || left <= 0 || s.score.span <= s.bound {
				return err
			}
			s.tryBlock(g.block, p)
			left -= s.builder.placed
		}
	}
	return nil
}

// tryBlock builds an order and keeps it if it is the best. It returns the order's span,
// or that of an impossible order if the span is far from the best.
func (s *search) tryBlock(block *block, p policy) int64 {
	p.block = block
	seqs, got := s.try(p, s.limit, s.score.span+s.score.span/8)
	if got.betterThan(s.score) {
		s.best, s.score = seqs.clone(), got
	}
	return got.span
}
