package search

import (
	"cmp"
	"context"
	"slices"
)

// The work that a search over a V does, in passes placed and run again, and the
// number of orders that it builds at most.
const (
	blockBuildTasks = 1_000_000
	blockMoveTasks  = 500_000
	mostBuilds      = 600
)

// tryBlocks builds orders by building blocks, which fills the gaps of the best of them
// in other ways, and improves the best order.
func (s *search) tryBlocks(ctx context.Context) error {
	if err := s.buildBlocks(ctx); err != nil {
		return err
	}
	if s.score.span > s.bound {
		s.offer(s.improve(s.best, s.limit, blockMoveTasks))
	}
	return nil
}

// buildBlocks builds orders from all blocks that there is time for by the first
// policy, and from the best by all others.
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

// tryBlock builds an order and keeps it if it is the best. It returns its span,
// unless that is far from the best.
func (s *search) tryBlock(block *block, p policy) int64 {
	p.block = block
	seqs, got := s.try(p, s.limit, s.score.span+s.score.span/8)
	if got.better(s.score) {
		s.best, s.score = seqs.clone(), got
	}
	return got.span
}
