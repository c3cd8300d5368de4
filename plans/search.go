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
type Point struct {
	*Plan
	// Pruned is why it was discarded, "" if it was not.
	Pruned string
	// Bound is a time that no step of it is shorter than; 0 where none is known.
	Bound time.Duration
	// Outcome is that of its simulation; Step is 0 if there was none.
	Outcome
	unit *unit
}

// before orders points by their steps, and by their settings where these are equal.
func (p *Point) before(q *Point) int { return cmp.Or(cmp.Compare(p.Step, q.Step), p.Compare(q.Plan)) }

// Options say how to search.
type Options struct {
	Rows    int // how many of the best plans are wanted
	Workers int // 0 is one for every processor
	// Predict simulates a plan whose order is searched for.
	Predict func(ctx context.Context, p *Plan) (Outcome, error)
	// Progress is told how far the search has come, one call at a time; nil is not.
	Progress func(Progress)
}

// Progress is how far a search has come.
type Progress struct {
	Plans, Decided, Simulated int
	Best                      time.Duration // the shortest step so far, 0 for none
	Gap                       float64       // see Found
}

// Found is what a search has found.
type Found struct {
	Best   []*Point // those that fit, best first
	Points []Point  // all, in the order of the plans
	// Gap is by how much the step of a better plan may be shorter, as a fraction: 0 where
	// the best is proved, 1 where nothing was found.
	Gap float64
	// Simulated counts plans and Tasks their tasks.
	Simulated, Tasks int
}

// Search decides plans: each is discarded because it cannot fit, or because its step
// cannot be as short as those of the best, or simulated. The best are the same whatever
// the number of workers. Where the context ends it, what was found so far comes with the
// context's error.
func Search(ctx context.Context, list []Plan, o Options) (*Found, error) {
	s := &searching{ctx: ctx, Options: o}
	s.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	s.engines = make([]engine, s.Workers)
	s.Gap, s.Points = 1, make([]Point, len(list))
	s.price(list)
	s.sort()
	s.parallel(s.next)
	s.settle()
	return &s.Found, errors.Join(s.err, ctx.Err())
}

type searching struct {
	Options
	Found
	ctx     context.Context
	mutex   sync.Mutex
	waiting []*Point       // to be simulated, lowest bound first
	running map[int]*Point // by worker
	engines []engine       // likewise
	decided int
	err     error
}

// parallel calls a function on every worker until it returns false.
func (s *searching) parallel(step func(worker int) bool) {
	var all sync.WaitGroup
	s.running = map[int]*Point{}
	for w := range s.Workers {
		all.Go(func() {
			for s.ctx.Err() == nil && step(w) {
			}
		})
	}
	all.Wait()
}

// together lists points whose plans are of one unit, unit by unit.
func (s *searching) together(list []Plan) [][]*Point {
	type ofSpace struct {
		*Space
		unitKey
	}
	units := map[ofSpace]int{}
	var all [][]*Point
	for i := range list {
		p := &s.Points[i]
		p.Plan = &list[i]
		key := ofSpace{p.space, p.space.keyOf(p.Plan)}
		at, known := units[key]
		if !known {
			at, units[key] = len(all), len(all)
			all = append(all, nil)
		}
		all[at] = append(all[at], p)
	}
	return all
}

// price makes the units of all plans, and with them what is known before any simulation.
func (s *searching) price(list []Plan) {
	units, next := s.together(list), 0
	s.parallel(func(int) bool {
		s.mutex.Lock()
		at := next
		next++
		s.mutex.Unlock()
		if at >= len(units) {
			return false
		}
		points := units[at]
		u := points[0].space.price(points[0].Plan)
		for _, p := range points {
			p.unit, p.Pruned, p.Bound = u, u.pruned, u.bounds[0]
			if p.space.splits[p.Schedule] {
				p.Bound = u.bounds[1]
			}
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if u.pruned != "" {
			s.decided += len(points)
		}
		s.tell()
		return true
	})
}

// sort puts the plans that are not discarded yet in the order of their bounds.
func (s *searching) sort() {
	for i := range s.Points {
		if p := &s.Points[i]; p.Pruned == "" {
			s.waiting = append(s.waiting, p)
		}
	}
	slices.SortFunc(s.waiting, func(p, q *Point) int { return cmp.Or(cmp.Compare(p.Bound, q.Bound), p.Compare(q.Plan)) })
}

// next decides the plan with the lowest bound. Once that is worse than the last of the
// best, so are all others.
func (s *searching) next(worker int) bool {
	s.mutex.Lock()
	delete(s.running, worker)
	if len(s.waiting) == 0 || s.err != nil || s.worse(s.waiting[0]) {
		s.mutex.Unlock()
		return false
	}
	p := s.waiting[0]
	s.waiting, s.running[worker] = s.waiting[1:], p
	s.mutex.Unlock()
	out, pruned, err := s.evaluate(worker, p)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err != nil {
		if s.ctx.Err() == nil {
			s.err = cmp.Or(s.err, err)
		}
		s.waiting = slices.Insert(s.waiting, 0, p)
		return false
	}
	s.decided++
	p.Outcome, p.Pruned = out, pruned
	if pruned == "" {
		s.keep(p)
	}
	s.Gap = s.gap()
	s.tell()
	return true
}

// tell says how far the search has come.
func (s *searching) tell() {
	if s.Progress == nil {
		return
	}
	progress := Progress{Plans: len(s.Points), Decided: s.decided, Simulated: s.Simulated, Gap: s.Gap}
	if len(s.Best) > 0 {
		progress.Best = s.Best[0].Step
	}
	s.Progress(progress)
}

// worse reports whether a plan cannot be among the best.
func (s *searching) worse(p *Point) bool {
	return len(s.Best) == s.Rows && p.Bound > s.Best[s.Rows-1].Step
}

// evaluate simulates a plan, unless another has the same order.
func (s *searching) evaluate(worker int, p *Point) (Outcome, string, error) {
	if configs.IsSearched(p.Schedule) {
		out, err := s.Predict(s.ctx, p.Plan)
		return out, "", err
	}
	if p.space.repeated(p.Plan) {
		return Outcome{}, Same, nil
	}
	return s.engines[worker].simulate(p.Plan, p.unit)
}

// keep counts a plan that was simulated, and puts it where it belongs among the best.
func (s *searching) keep(p *Point) {
	s.Simulated++
	s.Tasks += p.Tasks
	if !p.Fits {
		return
	}
	at, _ := slices.BinarySearchFunc(s.Best, p, (*Point).before)
	if at < s.Rows {
		s.Best = slices.Insert(s.Best, at, p)
		s.Best = s.Best[:min(s.Rows, len(s.Best))]
	}
}

// gap compares the best with the lowest bound of those that are not decided.
func (s *searching) gap() float64 {
	lowest := never
	if len(s.waiting) > 0 {
		lowest = s.waiting[0].Bound
	}
	for _, p := range s.running {
		if p.Step == 0 && p.Pruned == "" {
			lowest = min(lowest, p.Bound)
		}
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
func (s *searching) settle() {
	priced := s.waiting != nil || s.decided == len(s.Points)
	s.running = nil
	if s.ctx.Err() == nil && s.err == nil {
		for _, p := range s.waiting {
			p.Pruned = Slower
		}
		s.waiting = nil
	}
	if priced {
		s.Gap = s.gap()
	}
}
