package plans

import (
	"cmp"
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel"
)

// A candidate is a plan to be decided, or several of one unit that is to be bounded.
type candidate struct {
	points           []*Point
	bound            time.Duration // the least of theirs
	work             *work
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
func (c *candidate) follow() (way bounds, pruned string) {
	cut, err := c.cut()
	if err != nil {
		return way, Impossible
	}
	if lasting, most := cut.Lasting(), cut.Machine.RankMemory(); lasting != nil && most > 0 && slices.Max(lasting) > most {
		return way, Parameters
	}
	c.followed = true
	at, ranks := cut.Workload.Placement, newRankBounds(cut.Shape.Ranks)
	path := route{at: at, passes: c.work.passes(cut.Workload.Layers)}
	for microbatch, count := range copies(at, cut.Shape.Microbatches) {
		path.bound(ranks, microbatch, count)
	}
	return longest(ranks, at), ""
}

// raise gives plans a longer bound.
func (c *candidate) raise(all bounds) {
	c.bound = never
	for _, p := range c.points {
		p.Bound = max(p.Bound, all[p.space.kinds[p.Schedule]])
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
func (s *finding) take(worker int) *candidate {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.err == nil && s.ctx.Err() == nil {
		if len(s.waiting) > 0 && !s.worse(s.waiting[0]) {
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
func (s *finding) worse(c *candidate) bool {
	return len(s.Best) == s.Rows && c.bound > s.Best[s.Rows-1].Step
}

// A work is the plans whose networks have the same to do for a microbatch.
type work struct {
	candidates []*candidate // a unit each
	upTo       []passTimes  // of all layers before each, and of all
}

// together lists plans by their work, and those by units.
func (s *finding) together(list []Plan) []*work {
	type workOf struct {
		*Space
		workKey
	}
	type unitOf struct {
		*Space
		unitKey
	}
	works, units := map[workOf]*work{}, map[unitOf]*candidate{}
	var all []*work
	for i := range list {
		p := &s.Points[i]
		p.Plan, p.index = &list[i], i
		unit := unitOf{p.space, p.space.keyOf(p.Plan)}
		c := units[unit]
		if c == nil {
			key := workOf{p.space, workKeyOf(p.Plan)}
			w := works[key]
			if w == nil {
				w = &work{}
				works[key], all = w, append(all, w)
			}
			c = &candidate{work: w}
			units[unit], w.candidates = c, append(w.candidates, c)
		}
		c.points = append(c.points, p)
	}
	return all
}

// bound finds what a rank of every plan has to do on average: all that a microbatch
// needs, so many times, shared by the ranks of a replica. It discards plans whose
// parameters do not fit even if the ranks have equal shares of them.
func (w *work) bound() {
	p := w.candidates[0].points[0]
	whole, err := p.space.whole(p.Plan)
	var times []costmodel.LayerTime
	if err == nil {
		times, err = whole.LayerTimes(p.space.ranks(p.Plan))
	}
	if err != nil {
		times = nil // building a plan will say so
	} else {
		w.fit(whole)
	}
	var sum passTimes
	var all bounds
	w.upTo = []passTimes{sum}
	for _, t := range times {
		sum = passTimes{sum.forward + t.Forward, sum.backward + t.Backward, sum.input + t.Input, sum.weight + t.Weight, 0}
		w.upTo = append(w.upTo, sum)
		all[wholeOrder], all[splitOrder] = all[wholeOrder]+t.Forward+t.Backward, all[splitOrder]+t.Forward+min(t.Backward, t.Input+t.Weight)
	}
	all[pairedOrder], all[serialOrder] = all[splitOrder], all[wholeOrder]
	for _, c := range w.candidates {
		ranks, times := time.Duration(c.points[0].Stages), time.Duration(c.points[0].Microbatches)
		var share bounds
		for i := range all {
			share[i] = all[i]/ranks*times + all[i]%ranks*times/ranks
		}
		share[serialOrder] = all[serialOrder] * times
		c.raise(share)
		for _, p := range c.points {
			p.Work = p.Bound
		}
	}
}

// fit discards candidates whose parameters do not fit.
func (w *work) fit(whole *configs.Cut) {
	most := whole.Machine.RankMemory()
	w.candidates = slices.DeleteFunc(w.candidates, func(c *candidate) bool {
		p := c.points[0]
		if most == 0 || whole.Least(p.Stages, p.Data, p.Zero) <= most {
			return false
		}
		for _, p := range c.points {
			p.Pruned = Parameters
		}
		return true
	})
}

// passes adds up the layers of stages that have so many each.
func (w *work) passes(layers []int) []passTimes {
	list, first := make([]passTimes, len(layers)), 0
	for s, n := range layers {
		from, to := &w.upTo[first], &w.upTo[first+n]
		list[s] = passTimes{to.forward - from.forward, to.backward - from.backward, to.input - from.input, to.weight - from.weight, 0}
		first += n
	}
	return list
}
