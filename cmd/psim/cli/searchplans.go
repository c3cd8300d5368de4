package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psim/configs"
	"psim/internal/files"
	"psim/internal/nearest"
	"psim/internal/units"
	"psim/plans"
	"psim/reports"
	"psim/reports/figures"
	"psim/results/rankings"
	"psim/schedules"
)

// planFlags holds the flags of a search over the plans for a number of devices.
type planFlags struct {
	numbers    []int // of devices, as they are given
	devices    int   // the number to search plans for now
	trainer    string
	schedules  []string
	fix, vary  []string
	margin     string
	shard      string
	dimensions []string
	settings   string
}

// planFlagNames lists the flags that need --devices.
var planFlagNames = []string{
	"trainer", "schedules", "fix", "vary", "margin", "shard", "map", "settings", "csv", "submit",
}

func (f *planFlags) register(flags *pflag.FlagSet) {
	flags.IntSliceVar(&f.numbers, "devices", nil,
		"find the best plan for this number of devices, whatever plan CONFIG has; N,N…: for each of these numbers")
	flags.StringVar(&f.trainer, "trainer", "",
		"with --devices: keep to what this stack offers (psim list stacks), or any (default: CONFIG's train.stack)")
	flags.StringSliceVar(&f.schedules, "schedules", nil,
		"with --devices: only these schedules, A,B (default: all whose order is known)")
	flags.StringArrayVar(&f.fix, "fix", nil, "with --devices: keep CONFIG's value of this KEY; may be repeated")
	flags.StringArrayVar(&f.vary, "vary", nil,
		"with --devices: only these values of a setting, KEY=V1,V2…; may be repeated")
	flags.StringVar(&f.margin, "margin", "", "with --devices: share of the memory that a plan must leave free, "+
		"such as 10% (default: machine.memory_margin of CONFIG or its stack, else 13% of a GPU's or TPU's)")
	flags.StringVar(&f.shard, "shard", "", "with --devices: search only the I-th of N parts: I/N, auto or auto/N")
	flags.StringSliceVar(&f.dimensions, "map", nil,
		"with --devices: two dimensions of map.png, such as tensor,stages (default: the first two that vary)")
	registerSettings(flags, &f.settings, "with --devices: ")
}

// settingsValues are the values of --settings.
var settingsValues = []string{"first", "all"}

// registerSettings declares --settings.
func registerSettings(flags *pflag.FlagSet, value *string, when string) {
	flags.StringVar(value, "settings", "first", when+"print the settings of the first plan, or of all: first or all")
}

// complete lets a shell complete the names that flags take.
func (f *planFlags) complete(cmd *cobra.Command) {
	completeNames(cmd, map[string]func() []string{
		"trainer": trainerNames, "schedules": scheduleNames, "fix": plans.Keys, "map": rankings.PlanDimensions,
		"settings": func() []string { return settingsValues },
	})
}

// trainerNames lists the values of --trainer.
func trainerNames() []string {
	names := []string{plans.Any}
	for _, s := range configs.Stacks() {
		names = append(names, s.Name)
	}
	return names
}

// scheduleNames lists the values of --schedules.
func scheduleNames() []string {
	names := schedules.Names()
	for _, s := range configs.Searched() {
		names = append(names, s.Name)
	}
	return names
}

// checkName refuses a value of a flag that is not one of the names.
func checkName(flag, value string, names []string) error {
	if slices.Contains(names, value) {
		return nil
	}
	return fmt.Errorf("--%s: unknown name %q; use %s%s",
		flag, value, strings.Join(names, ", "), nearest.Suggest(value, names))
}

// checkNames refuses unknown trainers, schedules and dimensions.
func (f planFlags) checkNames() error {
	if f.trainer != "" {
		if err := checkName("trainer", f.trainer, trainerNames()); err != nil {
			return err
		}
	}
	for i, name := range f.schedules {
		if err := checkName("schedules", name, scheduleNames()); err != nil {
			return err
		}
		if slices.Contains(f.schedules[:i], name) {
			return fmt.Errorf("--schedules: %s is given twice", name)
		}
	}
	if err := checkName("settings", f.settings, settingsValues); err != nil {
		return err
	}
	return flagged("map", figures.CheckDimensions(f.dimensions))
}

// check refuses wrong flags, and without --devices those that need it.
func (f planFlags) check(flags *pflag.FlagSet) error {
	if flags.Changed("devices") {
		if err := checkDevices(f.numbers); err != nil {
			return err
		}
		for _, name := range []string{"shard", "submit"} {
			if len(f.numbers) > 1 && flags.Changed(name) {
				return fmt.Errorf("--%s: needs one number of --devices", name)
			}
		}
		if flags.Changed("schedules") && len(f.schedules) == 0 {
			return fmt.Errorf("--schedules: names no schedule; use some of %s", strings.Join(scheduleNames(), ", "))
		}
		return f.checkNames()
	}
	for _, name := range planFlagNames {
		if flags.Changed(name) {
			return fmt.Errorf("--%s: needs --devices, the number of devices to search plans for", name)
		}
	}
	return nil
}

// checkDevices refuses wrong numbers of devices.
func checkDevices(numbers []int) error {
	if len(numbers) == 0 {
		return errors.New("--devices: names no number")
	}
	for i, n := range numbers {
		if n < 1 {
			return fmt.Errorf("--devices %d: must be at least 1", n)
		}
		if slices.Contains(numbers[:i], n) {
			return fmt.Errorf("--devices: %d is given twice", n)
		}
	}
	return nil
}

// query returns what to search for. The margin of a configuration applies unless --margin is given.
func (f searchFlags) query(c *configs.Config, marginGiven bool) (q plans.Query, err error) {
	q = plans.Query{Devices: f.devices, Trainer: f.trainer, Schedules: f.schedules, Fix: f.fix, Rows: f.rows}
	q.Map = f.dimensions
	switch {
	case marginGiven:
		if q.Margin, err = parseShare(f.margin); err != nil {
			err = fmt.Errorf("--margin %s: %w", f.margin, err)
		}
	case c.Defined("model"): // a search refuses other configurations
		q.Margin, err = c.SearchMargin()
	}
	if err != nil {
		return q, err
	}
	if q.Vary, err = parseVariations(f.vary); err != nil {
		return q, err
	}
	for _, v := range q.Vary {
		for _, value := range v.Values {
			if err := configs.CheckSet(v.Key + "=" + value); err != nil {
				return q, variationError(err, q.Vary)
			}
		}
	}
	if f.shard != "" {
		if q.Shard, err = rankings.ParseShard(f.shard, os.LookupEnv); err != nil {
			return q, flagged("shard", err)
		}
	}
	return q, nil
}

// parseShare reads a share of a whole: 10% or 0.1.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x < 1) {
		return 0, errors.New("must be a share of the memory from 0% to below 100%, such as 10% or 0.1")
	}
	return x, nil
}

// A planSearch is a search over the plans for a number of devices.
type planSearch struct {
	searchFlags
	config *configs.Config
	query  plans.Query
	std    streams
}

// searchPlans finds the best plans for --devices.
func (f searchFlags) searchPlans(cmd *cobra.Command, path string) error {
	answer, err := f.findPlans(cmd, path)
	if answer == nil {
		return err
	}
	err = errors.Join(f.printFound(answer.PlanRanking, streamsOf(cmd)), err)
	if err == nil && len(answer.Plans) == 0 && !f.unpredicted() { // a shard has decided, and that is all it must
		return f.noPlanError(answer.PlanRanking)
	}
	return err
}

// findPlans finds the best plans for a number of devices and writes their files. The answer is nil if
// there was no search. With an error, it is what was found before an interrupt, or could not be written.
func (f searchFlags) findPlans(cmd *cobra.Command, path string) (*plans.Answer, error) {
	ctx := cmd.Context()
	c, err := f.load(ctx, path, f.sets)
	if err != nil {
		return nil, err
	}
	q, err := f.query(c, cmd.Flags().Changed("margin"))
	if err != nil {
		return nil, err
	}
	folder, err := f.folder(q.Shard, c.Files())
	if err != nil {
		return nil, err
	}
	s := planSearch{searchFlags: f, config: c, query: q, std: streamsOf(cmd)}
	s.note(s.std.err, c.Inputs)
	s.query.Points, s.query.Unpredicted = folder.Path != "", f.unpredicted()
	if s.query.Unpredicted { // otherwise somebody asks for the shard's own best plans
		s.query.Shared = plans.Shared{Folder: f.out, Version: versionName()}
	}
	answer, searched := s.search(ctx)
	if answer == nil {
		return nil, variationError(searched, q.Vary)
	}
	if s.out = folder.Path; searched != nil {
		s.out = folder.Aside().Path
	} else if !s.query.Unpredicted {
		searched = s.explain(ctx, answer)
	}
	unsaved := s.save(ctx, answer)
	return answer, errors.Join(unsaved, searched)
}

// submitSearch submits a search as a job array, after it has checked what a shard would check.
func (f searchFlags) submitSearch(cmd *cobra.Command, path string) error {
	c, err := f.load(cmd.Context(), path, f.sets)
	if err != nil {
		return err
	}
	q, err := f.query(c, cmd.Flags().Changed("margin"))
	if err == nil {
		_, err = plans.NewSpace(c, q)
	}
	if err == nil {
		_, err = f.folder(q.Shard, c.Files())
	}
	if err != nil {
		return variationError(err, q.Vary)
	}
	return f.submit(cmd, path, c)
}

// folder returns the folder for files: --out, or for a shard a folder in it. Its path is empty if
// nothing is to be saved.
func (f searchFlags) folder(shard rankings.Shard, inputs []string) (folder files.Folder, err error) {
	f.clearDash()
	path := f.out
	if f.shard != "" {
		if path == "" {
			return folder, errors.New("--out is missing: --shard needs it, for psim merge to find the part")
		}
		path = filepath.Join(path, shard.Folder())
	}
	folder = f.plansFolder(path)
	folder.Inputs = inputs
	return folder, f.checkOut(folder)
}

// plansFolder returns the folder for the files of a search.
func (f searchFlags) plansFolder(path string) files.Folder {
	folder := f.to(reports.PlansFolder(path, f.rows))
	folder.Made = f.shard != "" || len(f.numbers) > 1
	return folder
}

// unpredicted reports whether the plans are a shard's, and nobody asks for their results before it is merged.
func (f searchFlags) unpredicted() bool { return f.shard != "" && !f.json && !f.csv }

// printFound prints what a search has found: of a shard the step of its best plan.
func (f searchFlags) printFound(ranking rankings.PlanRanking, std streams) error {
	if !f.unpredicted() {
		return f.printPlans(ranking, f.settings, std)
	}
	if !f.quiet && ranking.Space > 0 {
		fmt.Fprintf(std.err, "psim: %s\n", reports.CountPlans(ranking))
	}
	text := "no plan of this shard fits in memory"
	if len(ranking.Plans) > 0 {
		text = "the best plan of this shard takes " + units.FormatSeconds(ranking.Plans[0].StepTime)
	}
	if len(ranking.Plans) == 0 && ranking.PrunedBy[plans.Slower] > 0 {
		text = "no plan of this shard is as fast as those of other shards"
	}
	_, err := fmt.Fprintf(std.out, "%s; psim merge %s joins the shards, and predicts their best plans\n", text, f.out)
	return err
}

// printPlans prints the plans in the form that the flags ask for. It prints how many plans were
// simulated on stderr, with the time that the search took, which differs from run to run.
func (f outputFlags) printPlans(ranking rankings.PlanRanking, settings string, std streams) error {
	switch {
	case f.json:
		return ranking.WriteJSON(std.out)
	case f.csv:
		return reports.WritePlansCSV(std.out, []rankings.PlanRanking{ranking})
	}
	if !f.quiet && ranking.Space > 0 {
		fmt.Fprintf(std.err, "psim: %s\n", reports.CountPlans(ranking))
	}
	return reports.WritePlanRanking(std.out, ranking, settings == "all")
}

// search searches the plans and shows its progress.
func (s planSearch) search(ctx context.Context) (*plans.Answer, error) {
	p, start := newProgress(s.std.err, s.quiet), time.Now()
	answer, err := plans.Search(ctx, s.config, s.query, func(now plans.Progress) {
		best := "none fits yet"
		if now.Best > 0 {
			best = "the best takes " + units.FormatDuration(now.Best)
		}
		p.showf("%d of %d plans decided, %d simulated; %s", now.Decided, now.Space, now.Simulated, best)
	})
	p.clear()
	if answer != nil {
		seconds := time.Since(start).Seconds()
		answer.Seconds = &seconds
	}
	return answer, err
}

// explain adds why the best plan wins. If no plan fits, it adds which changes would make one fit.
func (s planSearch) explain(ctx context.Context, answer *plans.Answer) (err error) {
	if len(answer.Plans) == 0 {
		answer.WouldFit, err = s.query.Remedies(ctx, s.config)
		return err
	}
	return answer.Explain(ctx, s.config, s.query)
}

// save writes the files into the folder, if there is one.
func (s planSearch) save(ctx context.Context, answer *plans.Answer) error {
	if s.out == "" {
		return nil
	}
	saved, err := answer.Saved(s.config, s.query, versionName())
	if err != nil {
		return err
	}
	names, err := plans.Save(context.WithoutCancel(ctx), saved, s.plansFolder(s.out), s.dimensions)
	if err != nil {
		return failure{err}
	}
	s.reportPlans(s.std.err, names, answer.Partial)
	return nil
}
