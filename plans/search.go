package plans

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"psim/configs"
)

// A Point is a plan and what is known of it.
type point struct {
	*Plan
	// Pruned is why it was discarded, "" if it was not.
	Pruned string
	// Work and Bound are times that no step of it is shorter than: what its ranks have to
	// do on average, and the longest path that no order avoids, 0 where that is not known.
	Work, Bound time.Duration
	// Outcome is that of its simulation; Step is 0 if there was none.
	outcome
	index  int // among the plans
	stages *stageGroup
}

// before orders points by their steps, and by their settings where these are equal.
func (p *point) before(q *point) int { return cmp.Or(cmp.Compare(p.Step, q.Step), p.Compare(q.Plan)) }

// Options say how to search.
type searchOptions struct {
	Rows    int // how many of the best plans are wanted
	Workers int // 0 is one for every processor
	// Predict simulates a plan whose order is searched for.
	Predict func(ctx context.Context, p *Plan) (outcome, error)
	// Progress is told how far the search has come, one call at a time; nil is not.
	Progress func(Progress)
}

// Progress is how far a search has come.
type Progress struct {
	Space, Decided, Simulated int
	Best                      time.Duration // the shortest step so far, 0 for none
	Gap                       float64       // see Found
}

// Found is what a search has found.
type decisions struct {
	Best   []*point // those that fit, best first
	Points []point  // all, in the order of the plans
	// Gap is by how much the step of a better plan may be shorter, as a fraction: 0 where
	// the best is proved, 1 where nothing was found.
	Gap float64
	// Simulated counts plans and Tasks their tasks.
	Simulated, Tasks int
}

// Find decides plans: each is discarded because it cannot fit, or because its step
// cannot be as short as those of the best, or simulated. The best are the same whatever
// the number of workers. Where the context ends it, what was found so far comes with the
// context's error.
func decideAll(ctx context.Context, list []Plan, o searchOptions) (*decisions, error) {
	s := &search{ctx: ctx, searchOptions: o}
	s.changed = sync.NewCond(&s.mutex)
	s.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	s.engines = make([]engine, s.Workers)
	s.Gap, s.Points = 1, make([]point, len(list))
	s.begin(list)
	s.parallel(s.next)
	s.settle()
	return &s.decisions, errors.Join(s.err, ctx.Err())
}

type search struct {
	searchOptions
	decisions
	ctx     context.Context
	mutex   sync.Mutex
	changed *sync.Cond         // waiting or running
	waiting queue              // to be decided, lowest bound first
	running map[int]*candidate // by worker
	engines []engine           // likewise
	cache   priceCache
	decided int
	err     error
}

// parallel calls a function on every worker until it returns false.
func (s *search) parallel(step func(worker int) bool) {
	var all sync.WaitGroup
	s.running = map[int]*candidate{}
	for w := range s.Workers {
		all.Go(func() {
			for s.ctx.Err() == nil && step(w) {
			}
		})
	}
	all.Wait()
}

// begin bounds all plans by the work of their networks, and queues them unit by unit.
func (s *search) begin(list []Plan) {
	works, next := s.group(list), 0
	s.parallel(func(int) bool {
		s.mutex.Lock()
		at := next
		next++
		s.mutex.Unlock()
		if at >= len(works) {
			return false
		}
		works[at].bound()
		return true
	})
	if s.ctx.Err() != nil {
		return
	}
	s.decided = len(s.Points)
	for _, w := range works {
		for _, c := range w.candidates {
			s.waiting.push(c)
			s.decided -= len(c.points)
		}
	}
}

// next takes the candidate with the lowest bound, and decides its plan, or bounds it better.
func (s *search) next(worker int) bool {
	c := s.take(worker)
	switch {
	case c == nil:
		return false
	case c.priced:
		return s.simulate(worker, c)
	case c.followed:
		s.boundByPrices(worker, c)
	default:
		s.boundByPath(worker, c)
	}
	return true
}

// follow bounds plans by the path through their stages.
func (s *search) boundByPath(worker int, c *candidate) {
	way, pruned := c.boundByPath()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if pruned != "" {
		s.prune(c, pruned)
	} else {
		c.raise(way) // not before: others read the bounds of those that run
		s.waiting.push(c)
	}
	s.release(worker)
}

// price makes the unit of some plans, which then wait by themselves, unless none is worth a
// simulation.
func (s *search) boundByPrices(worker int, c *candidate) {
	u := &stageGroup{pruned: Impossible}
	if cut, err := c.cut(); err == nil {
		u = newStageGroup(cut)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if u.pruned != "" {
		s.prune(c, u.pruned)
	} else {
		c.raise(u.bounds)
		s.cache.add(u)
		for _, p := range c.points {
			p.stages = u
			s.waiting.push(&candidate{points: []*point{p}, bound: p.Bound, priced: true})
		}
	}
	s.release(worker)
}

// prune discards all plans of a candidate.
func (s *search) prune(c *candidate, why string) {
	for _, p := range c.points {
		p.Pruned = why
	}
	s.decided += len(c.points)
}

// decide evaluates a plan.
func (s *search) simulate(worker int, c *candidate) bool {
	p := c.points[0]
	out, pruned, err := s.evaluate(worker, p)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err != nil {
		if s.ctx.Err() == nil {
			s.err = cmp.Or(s.err, err)
		}
		s.waiting.push(c)
		s.release(worker)
		return false
	}
	s.decided++
	s.cache.add(p.stages)
	p.outcome, p.Pruned = out, pruned
	if pruned == "" {
		s.rank(p)
	}
	s.release(worker)
	return true
}

// proceed notes that a worker is done with its candidate, and says how far the search has
// come.
func (s *search) release(worker int) {
	delete(s.running, worker)
	s.changed.Broadcast()
	s.Gap = s.gap()
	if s.Progress == nil {
		return
	}
	progress := Progress{Space: len(s.Points), Decided: s.decided, Simulated: s.Simulated, Gap: s.Gap}
	if len(s.Best) > 0 {
		progress.Best = s.Best[0].Step
	}
	s.Progress(progress)
}

// evaluate simulates a plan, unless another has the same order.
func (s *search) evaluate(worker int, p *point) (outcome, string, error) {
	if configs.IsSearched(p.Schedule) {
		out, err := s.Predict(s.ctx, p.Plan)
		return out, "", err
	}
	if p.space.repeatsEarlier(p.Plan) {
		return outcome{}, Same, nil
	}
	return s.engines[worker].simulate(p.Plan, p.stages)
}

// keep counts a plan that was simulated, and puts it where it belongs among the best.
func (s *search) rank(p *point) {
	s.Simulated++
	s.Tasks += p.Tasks
	if !p.Fits {
		return
	}
	at, _ := slices.BinarySearchFunc(s.Best, p, (*point).before)
	if at < s.Rows {
		s.Best = slices.Insert(s.Best, at, p)
		s.Best = s.Best[:min(s.Rows, len(s.Best))]
	}
}

// gap compares the best with the lowest bound of those that are not decided.
func (s *search) gap() float64 {
	lowest := never
	if len(s.waiting) > 0 {
		lowest = s.waiting[0].bound
	}
	for _, c := range s.running {
		lowest = min(lowest, c.bound)
	}
	switch {
	case lowest == never:
		return 0
	case len(s.Best) == 0:
		return 1
	}
	return max(0, 1-float64(lowest)/float64(s.Best[0].Step))
}

// settle says of the plans that were not looked at why not, and how sure the best is.
func (s *search) settle() {
	clear(s.running)
	switch {
	case s.ctx.Err() == nil && s.err == nil:
		for i := range s.Points {
			if p := &s.Points[i]; p.Pruned == "" && p.Step == 0 {
				p.Pruned = Slower
			}
		}
		s.Gap = 0
	case s.waiting != nil:
		s.Gap = s.gap()
	}
}
