package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"psim"
	"psim/configs"
	"psim/results/rankings"
)

// An Answer is what Search has found.
type Answer struct {
	rankings.PlanRanking
	// Capacity is the memory in bytes that a rank may use, less the margin, 0 if that is
	// unlimited or not known.
	Capacity int64
	// Points are all plans, decided or not, in the order in which the space lists them, if
	// the query asks for them.
	Points []rankings.PlanPoint
}

// Search finds the best plans for a network on a number of devices: over replicas,
// tensor-parallel groups, stages, microbatches, schedules, recomputation, sharding and
// sequence parallelism, whatever values the configuration has. Batch, model, machine and
// optimizer stay. progress, which may be nil, is told now and then how far the search
// has come. If the context ends it, Search returns what it has found so far beside
// the context's error.
func Search(ctx context.Context, c *configs.Config, q Query, progress func(Progress)) (*Answer, error) {
	if err := q.Shard.Check(); err != nil {
		return nil, err
	}
	if err := rankings.OnceEach(q.Vary); err != nil {
		return nil, err
	}
	space, err := NewSpace(c, q)
	if err != nil {
		return nil, err
	}
	list := space.Plans
	if q.Shard.Of > 0 {
		list = slices.DeleteFunc(list, func(p Plan) bool { return p.Part(q.Shard.Of) != q.Shard.Number-1 })
	}
	s := &draft{config: c}
	s.Varied = rankings.VariedKeys(q.Vary)
	found, err := decideAll(ctx, list, searchOptions{Rows: cmp.Or(q.Rows, defaultRows), Predict: s.predict, Progress: progress})
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if q.Points {
		s.listPoints(found)
	}
	if err := s.rank(context.WithoutCancel(ctx), found); err != nil {
		return nil, err
	}
	s.WithinNode = space.WithinNode
	s.Partial, s.Nothing = ctx.Err() != nil, space.WhyEmpty()
	return &s.Answer, ctx.Err()
}

type draft struct {
	Answer
	config *configs.Config
}

// predict simulates a plan as psim.Predict does.
func (s *draft) predict(ctx context.Context, p *Plan) (outcome, error) {
	one, err := s.estimate(ctx, p)
	if err != nil {
		return outcome{}, err
	}
	return outcome{Step: one.Summary.StepTime, Peak: one.Result.PeakMemory(), Fits: one.Result.Fits(), Tasks: one.Result.Tasks}, nil
}

func (s *draft) estimate(ctx context.Context, p *Plan) (*psim.Prediction, error) {
	c, err := s.config.With(p.Set()...)
	if err != nil {
		return nil, fmt.Errorf("the plan %v: %w", p.Set(), err)
	}
	return psim.Estimate(ctx, c)
}

// list writes what is known of all plans.
func (s *draft) listPoints(found *decisions) {
	s.Points = make([]rankings.PlanPoint, len(found.Points))
	for i := range found.Points {
		p := &found.Points[i]
		s.Points[i] = rankings.PlanPoint{
			Plan: p.PlanShape, Set: p.Set(), Pruned: p.Pruned, Work: p.Work, Bound: p.Bound,
			Simulated: p.Step > 0, StepTime: p.Step, PeakMemory: p.Peak, Fits: p.Fits,
		}
	}
}

// rank writes what was found as results.
func (s *draft) rank(ctx context.Context, found *decisions) error {
	s.Space, s.Evaluated, s.Gap, s.PrunedBy = len(found.Points), found.Simulated, found.Gap, map[string]int{}
	for i := range found.Points {
		if why := found.Points[i].Pruned; why != "" {
			s.Pruned++
			s.PrunedBy[why]++
		}
	}
	s.Bounded = s.PrunedBy[Slower]
	best := make([]predictedPlan, len(found.Best))
	failed := make([]error, len(best))
	var next atomic.Int32
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(best)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(best); i = int(next.Add(1)) - 1 {
				best[i], failed[i] = s.verify(ctx, found.Best[i])
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
func (s *draft) verify(ctx context.Context, p *point) (r predictedPlan, err error) {
	one, err := s.estimate(ctx, p.Plan)
	if err != nil {
		return r, err
	}
	if one.Summary.StepTime != p.Step || one.Result.Fits() != p.Fits {
		return r, fmt.Errorf("the plan %v was found to take %v, and takes %v: please report this", p.Set(), p.Step, one.Summary.StepTime)
	}
	if one.Experiment.Capacity != nil {
		r.capacity = slices.Min(one.Experiment.Capacity)
	}
	r.RankedPlan = rankings.RankedPlan{Result: one.Result, Plan: p.PlanShape, Set: p.Set()}
	return r, nil
}

// Why plans are discarded.
const (
	Impossible  = "not possible"
	Parameters  = "parameters, gradients and optimizer do not fit"
	Activations = "even the fewest activations do not fit"
	Slower      = rankings.Slower
	Same        = "the same order as another"
)
