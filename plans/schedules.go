package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"psim"
	"psim/configs"
	"psim/reports"
	"psim/reports/picture"
	"psim/results/rankings"
)

// A Ranking is what a search has found: plans with their settings and predictions,
// best first. Partial says that it was interrupted.
type ScheduleRanking struct {
	rankings.Ranking
	// Capacity is the memory in bytes of the rank that has the least, 0 if that
	// is unlimited or not known.
	Capacity int64
}

// Save writes plans.json and, if there is something to draw, pareto.png into a
// folder, and returns their names.
func (r *ScheduleRanking) Save(ctx context.Context, folder, title string) (names []string, err error) {
	figure := picture.ParetoFigure{Title: title, Plans: r.Plans, Capacity: r.Capacity}
	return reports.SaveRanking(ctx, r.Ranking, folder, figure)
}

// Search predicts a configuration with every schedule that can run it, 1, 2 and 4
// stages per rank where a schedule holds several, and for a [model] every number of
// equal microbatches, and ranks what it finds. progress, which may be nil, is told
// which plan comes next. If the context ends the search, Search returns what it has
// found so far, nil for nothing, beside the context's error.
func Schedules(ctx context.Context, c *configs.Config, progress func(plan, of int, settings []string)) (*ScheduleRanking, error) {
	if c.Defined("collective") {
		return nil, fmt.Errorf("%s: a [collective] has no schedule to be searched; give [times] or [model]", c.Name())
	}
	if c.Schedule.File != "" {
		return nil, fmt.Errorf("%s: schedule.file gives the order, and a search chooses it; remove file, or simulate it with psim run", c.Name())
	}
	if c.Batch.Shards != nil {
		return nil, fmt.Errorf("%s: a search gives all replicas the same share; remove batch.shards", c.Name())
	}
	s := &scheduleSearch{seen: map[string]bool{}, served: map[string]bool{}, refused: map[string]string{}}
	all := Combine(c)
	for i, one := range all {
		if progress != nil {
			progress(i+1, len(all), one.Sets)
		}
		err := one.Err
		if err == nil {
			err = s.evaluate(ctx, c, one.Sets)
		}
		if s.Partial = ctx.Err() != nil; s.Partial {
			break
		}
		s.note(one.Schedule, err)
	}
	switch {
	case s.Evaluated == 0 && s.Partial:
		return nil, ctx.Err()
	case s.Evaluated == 0 && s.Pruned == 0:
		return nil, s.first
	}
	s.leaveOut(all)
	s.Sort()
	return &s.ScheduleRanking, ctx.Err()
}

type scheduleSearch struct {
	ScheduleRanking
	seen    map[string]bool   // plans by what tells them apart
	served  map[string]bool   // schedules that have a plan
	refused map[string]string // the last reason why a schedule has none
	first   error             // the first reason why a combination is none
}

// note keeps whether a combination was possible, and if not the reason.
func (s *scheduleSearch) note(schedule string, err error) {
	if err == nil {
		s.served[schedule] = true
		return
	}
	if s.first == nil {
		s.first = err
		if errors.Is(err, errUncut) {
			s.first = fmt.Errorf("%s %w", schedule, err)
		}
	}
	s.refused[schedule], _, _ = strings.Cut(err.Error(), "\n")
}

// leaveOut lists the schedules of which no combination was possible.
func (s *scheduleSearch) leaveOut(all []Combination) {
	for _, one := range all {
		if reason := s.refused[one.Schedule]; reason != "" && !s.served[one.Schedule] {
			s.LeftOut = append(s.LeftOut, rankings.LeftOut{Schedule: one.Schedule, Reason: reason})
			s.served[one.Schedule] = true // once
		}
	}
}

// evaluate predicts one plan, unless its parameters alone do not fit.
func (s *scheduleSearch) evaluate(ctx context.Context, c *configs.Config, sets []string) error {
	c, err := c.With(sets...)
	if err != nil {
		return err
	}
	p, err := psim.Prepare(ctx, c)
	if err != nil {
		return err
	}
	shape := p.Experiment.Graph.Shape
	key := fmt.Sprint(p.Experiment.Graph.Name, shape.Virtual, shape.Microbatches)
	if s.seen[key] {
		return nil
	}
	s.seen[key] = true
	if p.Experiment.Capacity != nil {
		s.Capacity = slices.Min(p.Experiment.Capacity)
	}
	if hopeless(p.Experiment) {
		s.Pruned++
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := p.Simulate(ctx); err != nil {
		return err
	}
	s.Evaluated++
	s.Plans = append(s.Plans, rankings.Candidate{Result: p.Result, Settings: sets})
	return nil
}

// hopeless reports whether what stays in memory from step to step is too much.
func hopeless(experiment *configs.Experiment) bool {
	for r, bytes := range experiment.Costs.Persistent {
		if experiment.Capacity != nil && bytes > experiment.Capacity[r] {
			return true
		}
	}
	return false
}
