package plans

import (
	"cmp"
	"slices"
	"time"

	"psim/configs"
)

// A precision says how a candidate's bound was found.
type precision int

const (
	byWork   precision = iota // from the work of its layers
	byPath                    // from the path through its stages, without messages
	byPrices                  // from the prices of its stages
	byOrder                   // from the passes of its order; it is to be simulated next
)

// A candidate is an entry of the queue: the plans of a stage group, or once these are
// bounded by prices, a single plan.
type candidate struct {
	points    []*point
	bound     time.Duration // the smallest of its points
	precision precision
	layers    *layerGroup
}

// cut cuts the network into the stages of a plan. The result is not kept: there may be a million.
func (p *Plan) cut() (*configs.Cut, error) { return p.space.shared.Cut(p.divide(p.space)) }

// stageGroup prices the stages of a candidate's plans.
func (c *candidate) stageGroup() *stageGroup { return newStageGroup(c.points[0].Plan) }

// pathBound bounds plans by the path through their stages, without messages: this is much
// cheaper than pricing the stages. If no plan can run, it returns why.
func (c *candidate) pathBound() (path bounds, pruned string) {
	cut, err := c.points[0].cut()
	if err != nil {
		return path, Impossible
	}
	capacity := cut.Machine.RankMemory()
	if persistent := cut.Lasting(); persistent != nil && capacity > 0 && slices.Max(persistent) > capacity {
		return path, Parameters
	}
	at, ranks := cut.Workload.Placement, newRankBounds(cut.Shape.Ranks)
	way := route{at: at, passes: c.layers.stageTimes(cut.Workload.Layers)}
	for microbatch, count := range microbatchesByCopy(at, cut.Shape.Microbatches) {
		way.bound(ranks, microbatch, count)
	}
	return longest(ranks, at), ""
}

// raise raises the bounds of a candidate's plans to those of their kinds of orders.
func (c *candidate) raise(all bounds) {
	c.bound = forever
	for _, p := range c.points {
		p.Bound = max(p.Bound, all[p.space.orderKinds[p.Schedule]])
		c.bound = min(c.bound, p.Bound)
	}
}

// A queue is a heap of candidates with the lowest bound first.
type queue []*candidate

// before reports whether candidate i comes before candidate j.
func (q queue) before(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].bound, q[j].bound), cmp.Compare(q[i].points[0].index, q[j].points[0].index)) < 0
}

// push adds a candidate.
func (q *queue) push(c *candidate) {
	*q = append(*q, c)
	list := *q
	for i := len(list) - 1; i > 0 && list.before(i, (i-1)/2); i = (i - 1) / 2 {
		list[i], list[(i-1)/2] = list[(i-1)/2], list[i]
	}
}

// pop removes the first candidate and returns it.
func (q *queue) pop() *candidate {
	list, first := *q, (*q)[0]
	last := len(list) - 1
	list[0] = list[last]
	list = list[:last]
	for i, next := 0, 1; next < last; next = 2*i + 1 {
		if next+1 < last && list.before(next+1, next) {
			next++
		}
		if !list.before(next, i) {
			break
		}
		list[i], list[next] = list[next], list[i]
		i = next
	}
	*q = list
	return first
}

// take returns the first candidate of the queue for a worker, or nil when the search is
// over: when the lowest bound exceeds the step of the last of the best plans. take waits
// while other workers bound candidates that may come back to the queue.
func (s *search) take(worker int) *candidate {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.err == nil && s.ctx.Err() == nil {
		if len(s.waiting) > 0 && !s.cannotRank(s.waiting[0]) {
			c := s.waiting.pop()
			s.running[worker] = c
			return c
		}
		bounding := false
		for _, c := range s.running {
			bounding = bounding || c.precision < byOrder
		}
		if !bounding {
			break
		}
		s.changed.Wait()
	}
	return nil
}

// cannotRank reports whether a candidate's plans cannot be among the best.
func (s *search) cannotRank(c *candidate) bool {
	limit := s.limit()
	return limit > 0 && c.bound > limit
}
