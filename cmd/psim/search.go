package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psim/configs"
	"psim/reports"
)

// searchFlags are the flags of psim search.
type searchFlags struct {
	sets  []string
	json  bool
	out   string
	rows  int
	quiet bool
}

func newSearch() *cobra.Command {
	var f searchFlags
	cmd := &cobra.Command{
		Use:   "search CONFIG",
		Short: "find the best plan under a memory limit",
		Long: `search simulates the experiment of CONFIG with every schedule that can run it, 1, 2
and 4 stages per rank where a schedule holds several, and for a [model] every
number of equal microbatches, and ranks what fits in the memory of a rank by step
time. The schedules "auto" and "auto-v" are among them: orders that are found by
search themselves. What the configuration says of stages, batch and machine stays.
Of [times] that are alike for all stages, a schedule with V stages per rank gets a
V-th for each, so that every rank does the same work.

--out writes plans.json and pareto.png, which shows the step time of every plan
against the memory it needs. An interrupted search keeps what it has found.`,
		Example: `  psim search gpipe
  psim search gpipe --set machine.compute.memory=16GB --json
  psim search my.toml --out out/plans`,
		Args: exactly(1, "one CONFIG, a file or the name of an example"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSearch(cmd.Context(), args[0], f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.sets, "set", nil, "change a setting: KEY=VALUE with a dotted key; may be repeated")
	flags.BoolVar(&f.json, "json", false, "print the plans as one JSON object and nothing else")
	flags.StringVar(&f.out, "out", "", "folder to write plans.json and pareto.png to")
	flags.IntVar(&f.rows, "rows", 20, "how many plans to print")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	return cmd
}

// planFiles are the files that a search may write into a folder.
var planFiles = [...]string{"pareto.png", "plans.json"}

func runSearch(ctx context.Context, path string, f searchFlags, stdout, stderr io.Writer) error {
	if f.rows < 1 {
		return fmt.Errorf("--rows %d: at least 1 plan has to be printed", f.rows)
	}
	c, err := configs.Load(path, f.sets...)
	if err != nil {
		return err
	}
	if c.Defined("collective") {
		return fmt.Errorf("%s: a [collective] has no schedule to be searched; give [times] or [model]", c.Name())
	}
	if c.Schedule.File != "" {
		return fmt.Errorf("%s: schedule.file gives the order, and a search chooses it; remove file, or simulate it with psim run", c.Name())
	}
	if f.out != "" {
		if name := present(f.out, planFiles[:]); name != "" && !hasPlans(f.out) {
			return fmt.Errorf("--out %s: holds a %s that psim has not written; name another folder", f.out, name)
		}
		if err := checkFolder(f.out); err != nil {
			return err
		}
	}
	start := time.Now()
	p := newProgress(stderr, f.quiet)
	s, err := searchPlans(ctx, c, p)
	p.clear()
	if s == nil {
		return err
	}
	return errors.Join(s.report(context.WithoutCancel(ctx), c.Name(), f, start, stdout, stderr), err)
}

// report prints what was found, and writes it into the folder. What was found until
// an interrupt is kept.
func (s *planSearch) report(ctx context.Context, name string, f searchFlags, start time.Time, stdout, stderr io.Writer) error {
	if f.out != "" {
		written, err := s.write(ctx, name, f.out)
		if err != nil {
			return failure{err}
		}
		if !f.quiet {
			fmt.Fprintf(stderr, "wrote %s in %s\n", strings.Join(written, ", "), f.out)
		}
	}
	if !f.json {
		return s.plans.WriteTable(stdout, f.rows)
	}
	seconds := time.Since(start).Seconds()
	s.plans.Seconds = &seconds
	return s.plans.WriteJSON(stdout)
}

// planSearch is what a search has found so far.
type planSearch struct {
	plans    reports.Plans
	capacity int64
	seen     map[string]bool
	served   map[string]bool   // schedules that have a plan
	refused  map[string]string // the last reason why a schedule has none
	first    error             // the first reason why a combination is none
}

// searchPlans simulates every combination that the configuration allows. If it is
// interrupted it returns what it has found so far, nil for nothing, and the reason.
func searchPlans(ctx context.Context, c *configs.Config, p *progress) (*planSearch, error) {
	s := &planSearch{seen: map[string]bool{}, served: map[string]bool{}, refused: map[string]string{}}
	all := combine(c)
	for i, one := range all {
		p.say("plan %d of %d: %v", i+1, len(all), one.sets)
		err := one.err
		if err == nil {
			err = s.evaluate(ctx, c, one.sets)
		}
		if s.plans.Partial = ctx.Err() != nil; s.plans.Partial {
			break
		}
		s.note(one.schedule, err)
	}
	switch {
	case s.plans.Evaluated == 0 && s.plans.Partial:
		return nil, ctx.Err()
	case s.plans.Evaluated == 0 && s.plans.Pruned == 0:
		return nil, s.first
	}
	s.leaveOut(all)
	s.plans.Sort()
	return s, ctx.Err()
}

// note keeps whether a combination was possible, and if not the reason.
func (s *planSearch) note(schedule string, err error) {
	if err == nil {
		s.served[schedule] = true
		return
	}
	if s.first == nil {
		s.first = err
	}
	s.refused[schedule], _, _ = strings.Cut(err.Error(), "\n")
}

// leaveOut lists the schedules of which no combination was possible.
func (s *planSearch) leaveOut(all []combination) {
	for _, one := range all {
		if reason := s.refused[one.schedule]; reason != "" && !s.served[one.schedule] {
			s.plans.LeftOut = append(s.plans.LeftOut, reports.LeftOut{Schedule: one.schedule, Reason: reason})
			s.served[one.schedule] = true // once
		}
	}
}

// evaluate simulates one plan, unless its parameters alone do not fit.
func (s *planSearch) evaluate(ctx context.Context, c *configs.Config, sets []string) error {
	c, err := c.With(sets...)
	if err != nil {
		return err
	}
	if err := checkSize(c.Tasks()); err != nil {
		return err
	}
	e := &experiment{config: c}
	if err := e.construct(ctx, nil); err != nil {
		return err
	}
	shape := e.plan.Graph.Shape
	key := fmt.Sprint(e.plan.Graph.Name, shape.Virtual, shape.Microbatches)
	if s.seen[key] {
		return nil
	}
	s.seen[key] = true
	if e.plan.Capacity != nil {
		s.capacity = slices.Min(e.plan.Capacity)
	}
	if hopeless(e.plan) {
		s.plans.Pruned++
		return nil
	}
	if err := errors.Join(ctx.Err(), e.replay(ctx)); err != nil {
		return err
	}
	if err := e.leaveRoom(ctx); err != nil {
		return err
	}
	if e.result.FitsMemory {
		e.warnOfFragmentation()
	}
	s.plans.Evaluated++
	s.plans.Plans = append(s.plans.Plans, reports.Plan{Result: e.result, Settings: sets})
	return nil
}

// hopeless reports whether what stays in memory from step to step is too much.
func hopeless(plan *configs.Plan) bool {
	for r, bytes := range plan.Costs.Persistent {
		if plan.Capacity != nil && bytes > plan.Capacity[r] {
			return true
		}
	}
	return false
}

// write puts the files of a search into a folder and returns their names; the
// picture only if there is something to draw.
func (s *planSearch) write(ctx context.Context, name, folder string) ([]string, error) {
	picture := filepath.Join(folder, planFiles[0])
	files, written := []file{{filepath.Join(folder, planFiles[1]), s.plans.WriteJSON}}, planFiles[1:]
	figure := reports.ParetoFigure{Title: name + " · plans", Plans: s.plans.Plans, Capacity: s.capacity}
	draw := func(w io.Writer) error { return reports.Pareto(w, reports.PNG, figure) }
	stale := hasPlans(folder)
	if draw(io.Discard) == nil {
		files, written, stale = append([]file{{picture, draw}}, files...), planFiles[:], false
	}
	if err := writeFiles(ctx, files, folder); err != nil {
		return nil, err
	}
	if stale { // an earlier one would pass for this one's
		if err := os.Remove(picture); err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("%s: cannot be removed: %s", picture, reason(err))
		}
	}
	return written, nil
}

// hasPlans reports whether a search has been written to a folder.
func hasPlans(folder string) bool {
	_, err := readFile(filepath.Join(folder, planFiles[1]), reports.ReadPlans)
	return err == nil
}
