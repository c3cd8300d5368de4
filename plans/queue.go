package plans

import (
	"cmp"
	"slices"
	"time"

	"psim/configs"
)

// A candidate is a plan to be decided, or several of one unit that is to be bounded.
type candidate struct {
	points           []*point
	bound            time.Duration // the least of theirs
	layers           *layerGroup
	followed, priced bool
}

// cut cuts the network as the plans of a candidate do. It is not kept: there may be a
// million.
func (c *candidate) cut() (*configs.Cut, error) {
	p := c.points[0]
	return p.space.shared.Cut(p.divide(p.space))
}

// follow finds the path through the stages of a candidate's plans, without what these send:
// it is much less to do than pricing the unit. It says why none of them is possible.
func (c *candidate) boundByPath() (way bounds, pruned string) {
	cut, err := c.cut()
	if err != nil {
		return way, Impossible
	}
	if lasting, most := cut.Lasting(), cut.Machine.RankMemory(); lasting != nil && most > 0 && slices.Max(lasting) > most {
		return way, Parameters
	}
	c.followed = true
	at, ranks := cut.Workload.Placement, newRankBounds(cut.Shape.Ranks)
	path := route{at: at, passes: c.layers.stageTimes(cut.Workload.Layers)}
	for microbatch, count := range copies(at, cut.Shape.Microbatches) {
		path.bound(ranks, microbatch, count)
	}
	return longest(ranks, at), ""
}

// raise gives plans a longer bound.
func (c *candidate) raise(all bounds) {
	c.bound = never
	for _, p := range c.points {
		p.Bound = max(p.Bound, all[p.space.orderKinds[p.Schedule]])
		c.bound = min(c.bound, p.Bound)
	}
}

// A queue is a heap of candidates, lowest bound first.
type queue []*candidate

// before orders two candidates of a queue.
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

// pop takes the first.
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

// take waits for a candidate that may be among the best. Once the lowest bound is worse
// than the last of these, so are all others, but plans of units that are being priced.
func (s *search) take(worker int) *candidate {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.err == nil && s.ctx.Err() == nil {
		if len(s.waiting) > 0 && !s.cannotRank(s.waiting[0]) {
			c := s.waiting.pop()
			s.running[worker] = c
			return c
		}
		pricing := false
		for _, c := range s.running {
			pricing = pricing || !c.priced
		}
		if !pricing {
			break
		}
		s.changed.Wait()
	}
	return nil
}

// worse reports whether a candidate's plans cannot be among the best.
func (s *search) cannotRank(c *candidate) bool {
	return len(s.Best) == s.Rows && c.bound > s.Best[s.Rows-1].Step
}
