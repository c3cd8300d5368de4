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

// A point is a plan and what a search knows about it.
type point struct {
	*Plan
	// Pruned is the reason why the plan was discarded, "" if it was not.
	Pruned string
	// Work and Bound are times that no step of the plan is shorter than: the average work
	// of its ranks, and the best bound that was found, 0 for none.
	Work, Bound time.Duration
	// outcome is that of its simulation; Step is 0 if there was none.
	outcome
	index  int // among the plans
	stages *stageGroup
}

// before orders points by their steps, and equal steps by their settings.
func (p *point) before(q *point) int { return cmp.Or(cmp.Compare(p.Step, q.Step), p.Compare(q.Plan)) }

// searchOptions say how to search.
type searchOptions struct {
	Rows    int // how many of the best plans are wanted
	Workers int // 0 is one for every processor
	Dropped int // how many plans of the space are not in the list, because they do not fit
	// All asks for the steps of all plans that are simulated, not only of those that may be among the best.
	All bool
	// Predict predicts a plan as the answer has it: one whose order is searched for, and those that are likely to be
	// in the answer.
	Predict func(ctx context.Context, p *Plan) (outcome, *predictedPlan, error)
	// Progress, which may be nil, is called from time to time, one call at a time.
	Progress func(Progress)
	// Board, which may be nil, has what other shards know.
	Board *board
}

// Progress is how far a search has come.
type Progress struct {
	Space, Decided, Simulated int           // numbers of plans
	Best                      time.Duration // the shortest step so far, 0 for none
	Gap                       float64       // by how much a better step may be shorter, as a fraction
}

// decisions hold what a search has decided.
type decisions struct {
	Best   []*point // those that fit, best first
	Points []point  // all, in the order of the plans
	// Gap is the fraction by which the step of a better plan may be shorter: 0 if the best
	// plan is proven, 1 if none was found.
	Gap float64
	// Limit is the step of the last of the best plans that any shard knows, 0 if fewer are known.
	Limit time.Duration
	// Simulated counts the simulated plans, and Tasks their tasks.
	Simulated, Tasks int
	predicted        map[*point]*predictedPlan // some of the best plans, as the answer has them
	wanted           int                       // how many of the best were wanted
	dropped          int                       // plans that were not in the list, because they do not fit
}

// decideAll decides plans. It discards a plan because it cannot fit in memory, or because
// its step cannot be as short as those of the best plans; it simulates all others. The
// best plans do not depend on the number of workers. If the context ends, decideAll
// returns what it has decided so far along with the context's error.
func decideAll(ctx context.Context, list []Plan, o searchOptions) (*decisions, error) {
	s := &search{ctx: ctx, searchOptions: o}
	s.changed, s.wanted, s.dropped = sync.NewCond(&s.mutex), o.Rows, o.Dropped
	s.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	s.engines = make([]engine, s.Workers)
	s.Gap, s.Points, s.predicted = 1, make([]point, len(list)), map[*point]*predictedPlan{}
	ended, unshared := make(chan struct{}), sync.WaitGroup{}
	if s.Board != nil {
		s.Limit = s.Board.exchange(nil) // before the first plan is decided: share may start late
		unshared.Go(func() { s.share(ended) })
	}
	s.begin(list)
	s.parallel(s.next)
	close(ended)
	unshared.Wait()
	s.settle()
	found := s.decisions // alone: what simulated and priced the plans is needed no more
	return &found, errors.Join(s.err, ctx.Err())
}

// search holds the state of one decideAll.
type search struct {
	searchOptions
	decisions
	ctx     context.Context
	mutex   sync.Mutex
	changed *sync.Cond         // when waiting or running changes
	waiting queue              // candidates that are not decided
	running map[int]*candidate // by worker
	engines []engine           // by worker
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

// begin bounds all plans by the work of their layers, and queues them.
func (s *search) begin(list []Plan) {
	divisions, next := s.divide(list), 0
	s.parallel(func(int) bool {
		s.mutex.Lock()
		at := next
		next++
		s.mutex.Unlock()
		if at >= len(divisions) {
			return false
		}
		divisions[at].bound()
		return true
	})
	if s.ctx.Err() != nil {
		return
	}
	s.decided = len(s.Points)
	for _, d := range divisions {
		for c := range d.candidates() {
			s.waiting.push(c)
			s.decided -= len(c.points)
		}
	}
}

// next takes the first candidate of the queue and bounds it more precisely, or, if that is
// not possible, simulates its plan.
func (s *search) next(worker int) bool {
	c := s.take(worker)
	if c == nil {
		return false
	}
	switch c.precision {
	case byOrder:
		return s.simulate(worker, c)
	case byPrices:
		s.boundByOrder(worker, c)
	case byPath:
		s.boundByPrices(worker, c)
	default:
		s.boundByPath(worker, c)
	}
	return true
}

// boundByPath bounds plans by the path through their stages.
func (s *search) boundByPath(worker int, c *candidate) {
	path, pruned := c.pathBound()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if pruned != "" {
		s.prune(c, pruned)
	} else {
		c.precision = byPath
		c.raise(path) // with the lock, because gap reads the bounds of running candidates
		s.waiting.push(c)
	}
	s.release(worker)
}

// boundByPrices bounds plans by the prices of their stages, and queues each of them on its
// own.
func (s *search) boundByPrices(worker int, c *candidate) {
	g := c.stageGroup()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if g.pruned != "" {
		s.prune(c, g.pruned)
	} else {
		c.raise(g.bounds)
		g.left, g.least = len(c.points), c.bound
		s.cache.add(g)
		for _, p := range c.points {
			p.stages = g
			one := &candidate{points: []*point{p}, bound: p.Bound, precision: byPrices}
			if s.All || configs.IsSearched(p.Schedule) {
				one.precision = byOrder
			}
			s.waiting.push(one)
		}
	}
	s.release(worker)
}

// boundByOrder bounds a plan by the passes of its order. That bound is not noted as the plan's: it decides which plans
// are simulated first, and that others need not be simulated, which count as if they were.
func (s *search) boundByOrder(worker int, c *candidate) {
	p := c.points[0]
	bound, pruned := time.Duration(0), Same
	if !p.space.repeatsEarlier(p.Plan) {
		bound, pruned = s.engines[worker].outlined(p.Plan, p.stages)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c.precision, c.bound, p.Late = byOrder, max(c.bound, bound), bound > 0
	if pruned != "" {
		s.cache.decided(p.stages)
		s.prune(c, pruned)
	} else if bound == forever || s.cannotRank(c) {
		s.cache.decided(p.stages)
		s.decided++
	} else {
		s.waiting.push(c)
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

// simulate decides the plan of a candidate.
func (s *search) simulate(worker int, c *candidate) bool {
	p := c.points[0]
	out, predicted, pruned, err := s.evaluate(worker, p)
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
	s.cache.decided(p.stages)
	p.outcome, p.Pruned = out, pruned
	if pruned == "" {
		s.rank(p, predicted)
	}
	s.release(worker)
	return true
}

// release notes that a worker has finished its candidate, and reports progress.
func (s *search) release(worker int) {
	delete(s.running, worker)
	s.changed.Broadcast()
	s.Gap = s.gap()
	if s.Progress == nil {
		return
	}
	progress := Progress{
		Space: s.dropped + len(s.Points), Decided: s.dropped + s.decided, Simulated: s.Simulated, Gap: s.Gap,
	}
	if len(s.Best) > 0 {
		progress.Best = s.Best[0].Step
	}
	s.Progress(progress)
}

// evaluate simulates a plan, unless an earlier one has the same order. It predicts plans that are likely to be among
// the best: an outline knows that they are possible, and there are not yet as many as are wanted.
func (s *search) evaluate(worker int, p *point) (out outcome, predicted *predictedPlan, pruned string, err error) {
	searched := configs.IsSearched(p.Schedule)
	if searched || p.Late && s.Predict != nil && !s.full() {
		if out, predicted, err = s.Predict(s.ctx, p.Plan); err == nil || searched || s.ctx.Err() != nil {
			return out, predicted, "", err
		}
	}
	if s.All && p.space.repeatsEarlier(p.Plan) {
		return outcome{}, nil, Same, nil
	}
	out, pruned, err = s.engines[worker].simulate(p.Plan, p.stages, s.horizon())
	return out, nil, pruned, err
}

// full reports whether as many plans that fit have been found as are wanted.
func (s *search) full() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.Best) == s.Rows
}

// horizon returns the step of the last of the best plans so far, of any shard, if no longer step is of interest.
func (s *search) horizon() time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.All {
		return 0
	}
	return s.limit()
}

// rank counts a simulated plan, and inserts it among the best if it belongs there.
func (s *search) rank(p *point, predicted *predictedPlan) {
	s.Simulated++
	s.Tasks += p.Tasks
	if !p.Fits {
		return
	}
	at, _ := slices.BinarySearchFunc(s.Best, p, (*point).before)
	if at == s.Rows {
		return
	}
	if predicted != nil {
		s.predicted[p] = predicted
	}
	if s.Best = slices.Insert(s.Best, at, p); len(s.Best) > s.Rows {
		delete(s.predicted, s.Best[s.Rows])
		s.Best = s.Best[:s.Rows]
	}
}

// gap compares the best step with the lowest bound of the plans that are not decided.
func (s *search) gap() float64 {
	lowest := forever
	if len(s.waiting) > 0 {
		lowest = s.waiting[0].bound
	}
	for _, c := range s.running {
		lowest = min(lowest, c.bound)
	}
	switch {
	case lowest == forever:
		return 0
	case len(s.Best) == 0:
		return 1
	}
	return max(0, 1-float64(lowest)/float64(s.Best[0].Step))
}

// settle ends a search: plans that are still waiting are slower than the best ones, unless
// the search was interrupted.
func (s *search) settle() {
	clear(s.running)
	for i := range s.Points {
		if g := s.Points[i].stages; g != nil {
			g.forget()
		}
	}
	switch {
	case s.ctx.Err() == nil && s.err == nil:
		for i := range s.Points {
			if p := &s.Points[i]; p.Pruned == "" && p.Step == 0 && !p.Late {
				p.Pruned = Slower
			}
		}
		s.Gap = 0
	case s.waiting != nil:
		s.Gap = s.gap()
		for _, c := range s.waiting {
			for _, p := range c.points {
				p.Late = p.Late && s.cannotRank(c)
			}
		}
	}
}
