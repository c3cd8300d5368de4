package search

import "context"

// The work that a search under limits does, in passes placed and passes run again: about a
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
	tries = max(fewest, min(builds, len(turnPolicies())))
	return tries, max(1, min(builds/tries, mostLevels))
}

// tryLimits builds and improves orders under the limit and lower ones.
func (s *search) tryLimits(ctx context.Context) error {
	tries, levels := effort(3 * s.p * s.m)
	for _, limit := range s.ladder(levels) {
		s.level(limit, turnPolicies()[:tries], moveTasks/levels, levels == 1)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// level searches under one limit: it builds an order by every policy, and moves
// passes of the best. A search that has only this level goes on from what it knows.
func (s *search) level(limit []int64, policies []policy, work int, only bool) {
	best, score := sequences(nil), impossible
	if only {
		best, score = s.best, s.score
	}
	for i, p := range policies {
		if i >= fewest && s.score.span <= s.bound {
			break // only the makespan could still get shorter
		}
		if seqs, got := s.try(p, limit, score.span); got.better(score) {
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

// ladder lists the limits to search under: the given one and lower ones, because
// the construction does not always gain by more memory. They are whole multiples
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
