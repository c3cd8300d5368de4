package psim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"psim/configs"
	"psim/plans"
	"psim/reports"
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
	Vary []reports.Variation
	// Margin is the share of the memory that a plan has to leave free.
	Margin float64
	// Shard is the part of the plans to search, and Rows how many of the best are wanted;
	// 0 is 20.
	Shard Shard
	Rows  int
}

// A PlanRanking is what SearchPlans has found.
type PlanRanking struct {
	reports.PlanRanking
	// Capacity is the memory in bytes that a rank may use, less the margin, 0 if that is
	// unlimited or not known.
	Capacity int64
	// Points are all plans, decided or not, in the order in which the space lists them.
	Points []PlanPoint
}

// A PlanPoint is what is known of a plan.
type PlanPoint = reports.PlanPoint

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
	vary := map[string][]string{}
	for _, v := range q.Vary {
		vary[v.Key] = append(vary[v.Key], v.Values...)
	}
	space, err := plans.New(c, plans.Query{Devices: q.Devices, Trainer: q.Trainer, Schedules: q.Schedules, Fix: q.Fix, Vary: vary, Margin: q.Margin})
	if err != nil {
		return nil, err
	}
	list := space.Plans
	if q.Shard.Of > 0 {
		list = slices.DeleteFunc(list, func(p plans.Plan) bool { return p.Part(q.Shard.Of) != q.Shard.Number-1 })
	}
	s := &plansSearch{config: c, rows: cmp.Or(q.Rows, defaultRows), progress: progress}
	s.Space, s.PrunedBy, s.Gap = len(list), map[string]int{}, 1
	if progress == nil {
		s.progress = func(PlanProgress) {}
	}
	return s.run(ctx, list)
}

type plansSearch struct {
	PlanRanking
	config   *configs.Config
	rows     int
	progress func(PlanProgress)
}

// run decides every plan.
func (s *plansSearch) run(ctx context.Context, list []plans.Plan) (*PlanRanking, error) {
	for i := range list {
		point := PlanPoint{Plan: list[i].PlanShape, Set: list[i].Set}
		err := s.evaluate(ctx, &point)
		if ctx.Err() != nil {
			s.Partial = true
			return &s.PlanRanking, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		s.Points = append(s.Points, point)
		s.progress(PlanProgress{Space: len(list), Decided: i + 1, Simulated: s.Evaluated, Gap: 1})
	}
	s.Gap = 0
	return &s.PlanRanking, nil
}

// evaluate simulates a plan, unless its parameters alone do not fit.
func (s *plansSearch) evaluate(ctx context.Context, point *PlanPoint) error {
	c, err := s.config.With(point.Set...)
	if err != nil {
		return fmt.Errorf("the plan %v: %w", point.Set, err)
	}
	p := &Prediction{Config: c}
	if err := p.build(ctx, nil); err != nil {
		return errors.Join(ctx.Err(), s.prune(point, "not possible"))
	}
	if p.Plan.Capacity != nil {
		s.Capacity = slices.Min(p.Plan.Capacity)
	}
	if hopeless(p.Plan) {
		return s.prune(point, "parameters do not fit")
	}
	if err := errors.Join(p.simulate(ctx), p.reserveForMessages(ctx)); err != nil {
		return err
	}
	s.Evaluated++
	point.Simulated, point.StepTime, point.PeakMemory, point.Fits = true, p.Summary.StepTime, p.Result.PeakMemory(), p.Result.Fits()
	if point.Fits {
		s.keep(reports.RankedPlan{Result: p.Result, Plan: point.Plan, Set: point.Set})
	}
	return nil
}

func (s *plansSearch) prune(point *PlanPoint, reason string) error {
	point.Pruned = reason
	s.Pruned++
	s.PrunedBy[reason]++
	return nil
}

// keep puts a plan where it belongs among the best.
func (s *plansSearch) keep(p reports.RankedPlan) {
	at, _ := slices.BinarySearchFunc(s.Plans, p, func(a, b reports.RankedPlan) int {
		return cmp.Or(cmp.Compare(a.StepTime, b.StepTime), slices.Compare(a.Set, b.Set))
	})
	if at < s.rows {
		s.Plans = slices.Insert(s.Plans, at, p)
		s.Plans = s.Plans[:min(s.rows, len(s.Plans))]
	}
}
