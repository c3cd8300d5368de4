package plans

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"psim"
	"psim/configs"
	"psim/internal/files"
	"psim/reports"
	"psim/reports/picture"
	"psim/reports/titles"
	"psim/results/rankings"
	"psim/schedules"
	"psim/schedules/graph"
)

// A ScheduleRanking holds the plans that Schedules has found, with their settings and
// predictions, best first. Partial says that the search was interrupted.
type ScheduleRanking struct {
	rankings.Ranking
	// Capacity is the memory in bytes of the rank that has the least; 0 if it is unlimited
	// or unknown.
	Capacity int64
}

// Save writes plans.json and, if there are plans to draw, pareto.png into a folder, with the
// configurations of some of the best plans that fit. It returns the names of the files.
func (r *ScheduleRanking) Save(
	ctx context.Context, to files.Folder, name string, rows int,
) (names []string, err error) {
	figure := picture.ParetoFigure{Plans: r.Plans, Capacity: r.Capacity}
	if len(r.Plans) > 0 {
		figure.Title = "Schedules by step time and memory: " + titles.Subject(r.Plans[0].Result)
	}
	var list []files.File
	var drawn bytes.Buffer
	if picture.Pareto(&drawn, picture.PNG, figure) == nil {
		draw := func(w io.Writer) error { _, err := w.Write(drawn.Bytes()); return err }
		list = append(list, files.File{Path: "pareto.png", Render: draw})
	}
	for i, plan := range r.Plans[:min(rows, len(r.Plans))] {
		if plan.Fits() {
			list = append(list, planFile(i+1, name, plan.Result))
		}
	}
	return reports.SaveRanking(ctx, r.Ranking, to, list...)
}

// Schedules predicts a configuration with every schedule that can run it, with 1, 2 and 4
// stages per rank if a schedule holds several, and for a [model] with every number of
// equal microbatches, and ranks the results. progress, which may be nil, is called before
// each plan. If the context ends, Schedules returns what it has found so far, nil for
// nothing, along with the context's error.
func Schedules(
	ctx context.Context, c *configs.Config, progress func(plan, of int, settings []string),
) (*ScheduleRanking, error) {
	if c.Defined("collective") {
		return nil, fmt.Errorf("%s: a [collective] has no schedule to search; give [times] or [model]", c.Name())
	}
	if c.Schedule.File != "" {
		return nil, fmt.Errorf("%s: schedule.file gives the order, but a search chooses it; "+
			"remove file, or simulate it with psim run", c.Name())
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
			err = s.evaluate(ctx, c, one)
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

// scheduleSearch holds the state of one call of Schedules.
type scheduleSearch struct {
	ScheduleRanking
	seen    map[string]bool   // plans, by schedule, stages per rank and microbatches
	served  map[string]bool   // schedules that have a plan
	refused map[string]string // the last reason why a combination was refused, by schedule
	first   error             // the first such reason
}

// note notes whether a combination was possible, and if not the reason.
func (s *scheduleSearch) note(schedule string, err error) {
	if err == nil {
		s.served[schedule] = true
		return
	}
	if s.first == nil {
		s.first = err
		if errors.Is(err, errIndivisible) {
			s.first = fmt.Errorf("%s %w", schedule, err)
		}
	}
	s.refused[schedule], _, _ = strings.Cut(err.Error(), "\n")
}

// leaveOut lists the schedules for which no combination was possible.
func (s *scheduleSearch) leaveOut(all []Combination) {
	for _, one := range all {
		if reason := s.refused[one.Schedule]; reason != "" && !s.served[one.Schedule] {
			s.LeftOut = append(s.LeftOut, rankings.LeftOut{Schedule: one.Schedule, Reason: reason})
			s.served[one.Schedule] = true // list it once
		}
	}
}

// evaluate predicts one plan, unless its parameters already exceed the memory.
func (s *scheduleSearch) evaluate(ctx context.Context, c *configs.Config, one Combination) error {
	c, err := c.With(one.Sets...)
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
	if exceedsCapacity(p.Experiment) {
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
	s.Plans = append(s.Plans, rankings.NewCandidate(p.Result, one.Sets, one.TimesDividedBy))
	return nil
}

// exceedsCapacity reports whether the memory that stays allocated from step to step is too
// much.
func exceedsCapacity(experiment *configs.Experiment) bool {
	for r, bytes := range experiment.Costs.Persistent {
		if experiment.Capacity != nil && bytes > experiment.Capacity[r] {
			return true
		}
	}
	return false
}

// A Combination is a plan to try: its settings, or the reason why it cannot be tried.
type Combination struct {
	Schedule string
	PerRank  int
	Sets     []string
	// TimesDividedBy says by how much Sets divides [times] and activations, so that stages of
	// another number do the same work together; 0 if it does not.
	TimesDividedBy float64
	Err            error
}

// Combine lists the combinations of every schedule, number of microbatches and number of
// stages per rank for a configuration.
func Combine(c *configs.Config) []Combination {
	var list []Combination
	for _, s := range schedulesToTry(c) {
		for _, microbatches := range microbatchesToTry(c) {
			for _, virtual := range stagesPerRankToTry(c) {
				fixed := s.PerRank > 0 && !s.Virtual
				single := s.PerRank == 0 && !s.Virtual
				if virtual < s.PerRank || fixed && virtual != s.PerRank || single && virtual > 1 {
					continue
				}
				times, ok := c.DividedTimes(virtual)
				if !ok {
					list = append(list, Combination{Schedule: s.Name, PerRank: virtual, Err: errIndivisible})
					continue
				}
				sets := append([]string{"schedule.name=" + s.Name}, microbatches...)
				if virtual > 1 && !fixed {
					sets = append(sets, fmt.Sprintf("schedule.virtual_stages=%d", virtual))
				} else if c.Defined("schedule.virtual_stages") {
					sets = append(sets, "schedule.virtual_stages=1")
				}
				if c.Defined("schedule.group") && (!s.Grouped || virtual == 1) {
					sets = append(sets, "schedule.group=0")
				}
				if n := len(c.Schedule.Partition.Layers); n > 0 && n != c.Schedule.Stages*virtual {
					sets = append(sets, "schedule.partition=balanced")
				}
				one := Combination{Schedule: s.Name, PerRank: virtual, Sets: append(sets, times...)}
				if times != nil {
					one.TimesDividedBy = float64(virtual) / float64(c.PerRank())
				}
				list = append(list, one)
			}
		}
	}
	return list
}

var errIndivisible = errors.New("holds several stages per rank, and [times] or activations " +
	"that differ between stages, or do not divide evenly, cannot be shared among them")

// stagesPerRankToTry lists the numbers of stages per rank to try. Several stages do not
// help a single rank, but it may be configured so.
func stagesPerRankToTry(c *configs.Config) []int {
	own := c.PerRank()
	if c.Schedule.Stages <= 1 {
		return slices.Compact([]int{own, 1})
	}
	list := []int{1, 2, 4}
	if !slices.Contains(list, own) {
		list = append(list, own)
	}
	return list
}

// schedulesToTry lists the schedules to try: all that spread stages over ranks, or for a
// single rank the configuration's own. With [times], which price one copy of a stage,
// schedules that hold every stage twice would do other work and are omitted. A schedule
// that updates before the whole batch is done trains differently, and is tried only if it
// is the configuration's own.
func schedulesToTry(c *configs.Config) []schedules.Schedule {
	if c.Schedule.Stages <= 1 {
		all := append(schedules.Catalog(), configs.Searched()...)
		isOwn := func(s schedules.Schedule) bool { return s.Name == c.Schedule.Name }
		if i := slices.IndexFunc(all, isOwn); i >= 0 {
			return all[i : i+1]
		}
		return []schedules.Schedule{{Name: c.Schedule.Name, Virtual: true}} // building reports the unknown name
	}
	shape := graph.Shape{Ranks: c.Schedule.Stages, Microbatches: 1}
	var list []schedules.Schedule
	for _, s := range schedules.Catalog() {
		own := !s.Stashing || s.Name == c.Schedule.Name
		if own && s.Pipelined && (c.Defined("model") || s.Placement(shape).Second == nil) {
			list = append(list, s)
		}
	}
	return append(list, configs.Searched()...)
}

// microbatchesToTry lists the ways to cut a replica's share of the batch into equal
// microbatches, as settings. With [times], which price a microbatch of one size, there is
// one.
func microbatchesToTry(c *configs.Config) [][]string {
	const most = 1 << 12
	perReplica := c.Batch.Global / int64(max(1, c.Parallel.Data))
	if !c.Defined("model") || perReplica < 1 {
		return [][]string{nil}
	}
	var list [][]string
	for n := int64(1); n <= min(perReplica, most); n++ {
		if perReplica%n != 0 {
			continue
		}
		sets := []string{fmt.Sprintf("schedule.microbatches=%d", n)}
		if c.Defined("batch.micro") {
			sets = append(sets, fmt.Sprintf("batch.micro=%d", perReplica/n))
		}
		list = append(list, sets)
	}
	return list
}
