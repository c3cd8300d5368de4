package psim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"psim/configs"
	"psim/plans"
	"psim/results/rankings"
)

// A PlanQuery says which plans SearchPlans is asked for.
type PlanQuery struct {
	Devices int
	// Trainer limits schedules and options to what a stack offers, "any" does not; ""
	// is the configuration's stack.
	Trainer string
	// Schedules limits the schedules; nil: all but those whose order is searched for.
	Schedules []string
	// Fix lists keys that keep the configuration's value, and Vary restricts keys to
	// values; keys that a search does not choose by itself are searched, too.
	Fix  []string
	Vary []rankings.Variation
	// Margin is the share of the memory that a plan has to leave free.
	Margin float64
	// Shard is the part of the plans to search, and Rows how many of the best are wanted;
	// 0 is 20.
	Shard Shard
	Rows  int
	// Points asks for what is known of every plan, of which there may be millions.
	Points bool
}

// A PlanRanking is what SearchPlans has found.
type PlanRanking struct {
	rankings.PlanRanking
	// Capacity is the memory in bytes that a rank may use, less the margin, 0 if that is
	// unlimited or not known.
	Capacity int64
	// Points are all plans, decided or not, in the order in which the space lists them, if
	// the query asks for them.
	Points []PlanPoint
}

// A PlanPoint is what is known of a plan.
type PlanPoint = rankings.PlanPoint

// PlanProgress is how far a search has come.
type PlanProgress struct {
	Space, Decided, Simulated int
	Best                      time.Duration // the shortest step so far, 0 for none
	Gap                       float64       // see reports.PlanRanking
}

const defaultRows = 20

// SearchPlans finds the best plans for a network on a number of devices: over replicas,
// tensor-parallel groups, stages, microbatches, schedules, recomputation, sharding and
// sequence parallelism, whatever values the configuration has. Batch, model, machine and
// optimizer stay. progress, which may be nil, is told now and then how far the search
// has come. If the context ends it, SearchPlans returns what it has found so far beside
// the context's error.
func SearchPlans(ctx context.Context, c *configs.Config, q PlanQuery, progress func(PlanProgress)) (*PlanRanking, error) {
	if err := q.Shard.check(); err != nil {
		return nil, err
	}
	if err := onceEach(q.Vary); err != nil {
		return nil, err
	}
	vary := map[string][]string{}
	for _, v := range q.Vary {
		vary[v.Key] = v.Values
	}
	space, err := plans.New(c, plans.Query{Devices: q.Devices, Trainer: q.Trainer, Schedules: q.Schedules, Fix: q.Fix, Vary: vary, Margin: q.Margin})
	if err != nil {
		return nil, err
	}
	list := space.Plans
	if q.Shard.Of > 0 {
		list = slices.DeleteFunc(list, func(p plans.Plan) bool { return p.Part(q.Shard.Of) != q.Shard.Number-1 })
	}
	s := &plansSearch{config: c}
	s.Varied = rankings.VariedKeys(q.Vary)
	found, err := plans.Search(ctx, list, plans.Options{Rows: cmp.Or(q.Rows, defaultRows), Predict: s.predict, Progress: shown(progress)})
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if q.Points {
		s.list(found)
	}
	if err := s.rank(context.WithoutCancel(ctx), found); err != nil {
		return nil, err
	}
	s.WithinNode = space.WithinNode
	s.Partial, s.Nothing = ctx.Err() != nil, space.Nothing()
	return &s.PlanRanking, ctx.Err()
}

// shown tells progress in the words of PlanProgress.
func shown(progress func(PlanProgress)) func(plans.Progress) {
	if progress == nil {
		return nil
	}
	return func(p plans.Progress) { progress(PlanProgress{p.Plans, p.Decided, p.Simulated, p.Best, p.Gap}) }
}

type plansSearch struct {
	PlanRanking
	config *configs.Config
}

// predict simulates a plan as psim.Predict does.
func (s *plansSearch) predict(ctx context.Context, p *plans.Plan) (plans.Outcome, error) {
	one, err := s.prediction(ctx, p)
	if err != nil {
		return plans.Outcome{}, err
	}
	return plans.Outcome{Step: one.Summary.StepTime, Peak: one.Result.PeakMemory(), Fits: one.Result.Fits(), Tasks: one.Result.Tasks}, nil
}

func (s *plansSearch) prediction(ctx context.Context, p *plans.Plan) (*Prediction, error) {
	c, err := s.config.With(p.Set()...)
	if err != nil {
		return nil, fmt.Errorf("the plan %v: %w", p.Set(), err)
	}
	return Estimate(ctx, c)
}

// list writes what is known of all plans.
func (s *plansSearch) list(found *plans.Found) {
	s.Points = make([]PlanPoint, len(found.Points))
	for i := range found.Points {
		p := &found.Points[i]
		s.Points[i] = PlanPoint{
			Plan: p.PlanShape, Set: p.Set(), Pruned: p.Pruned, Work: p.Work, Bound: p.Bound,
			Simulated: p.Step > 0, StepTime: p.Step, PeakMemory: p.Peak, Fits: p.Fits,
		}
	}
}

// rank writes what was found as results.
func (s *plansSearch) rank(ctx context.Context, found *plans.Found) error {
	s.Space, s.Evaluated, s.Gap, s.PrunedBy = len(found.Points), found.Simulated, found.Gap, map[string]int{}
	for i := range found.Points {
		if why := found.Points[i].Pruned; why != "" {
			s.Pruned++
			s.PrunedBy[why]++
		}
	}
	s.Bounded = s.PrunedBy[plans.Slower]
	best := make([]predictedPlan, len(found.Best))
	failed := make([]error, len(best))
	var next atomic.Int32
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(best)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(best); i = int(next.Add(1)) - 1 {
				best[i], failed[i] = s.again(ctx, found.Best[i])
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, p := range best {
		s.Capacity = cmp.Or(p.capacity, s.Capacity)
		s.Plans = append(s.Plans, p.RankedPlan)
	}
	return nil
}

// A predictedPlan is a plan with what its ranks may use.
type predictedPlan struct {
	rankings.RankedPlan
	capacity int64
}

// again predicts a plan that was found, as psim.Predict does.
func (s *plansSearch) again(ctx context.Context, p *plans.Point) (r predictedPlan, err error) {
	one, err := s.prediction(ctx, p.Plan)
	if err != nil {
		return r, err
	}
	if one.Summary.StepTime != p.Step || one.Result.Fits() != p.Fits {
		return r, fmt.Errorf("the plan %v was found to take %v, and takes %v: please report this", p.Set(), p.Step, one.Summary.StepTime)
	}
	if one.Plan.Capacity != nil {
		r.capacity = slices.Min(one.Plan.Capacity)
	}
	r.RankedPlan = rankings.RankedPlan{Result: one.Result, Plan: p.PlanShape, Set: p.Set()}
	return r, nil
}
