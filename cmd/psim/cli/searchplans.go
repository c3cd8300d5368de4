package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	lib "psim"
	"psim/configs"
	"psim/internal/files"
	"psim/internal/nearest"
	"psim/internal/units"
	"psim/plans"
	"psim/published"
	"psim/reports"
	"psim/reports/figures"
	"psim/results/rankings"
	"psim/schedules"
)

// planFlags holds those of a search over the plans for a number of devices.
type planFlags struct {
	devices    int
	trainer    string
	schedules  []string
	fix, vary  []string
	margin     string
	shard      string
	dimensions []string
}

// ofPlans names the flags that go with --devices.
var ofPlans = []string{"trainer", "schedules", "fix", "vary", "margin", "shard", "map"}

func (f *planFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&f.devices, "devices", 0, "find the best plan for so many devices, whatever plan CONFIG has")
	flags.StringVar(&f.trainer, "trainer", "", "with --devices: keep to what this stack offers (psim list stacks), or any (default: CONFIG's train.stack)")
	flags.StringSliceVar(&f.schedules, "schedules", nil, "with --devices: only these schedules, A,B (default: all whose order is known)")
	flags.StringArrayVar(&f.fix, "fix", nil, "with --devices: keep CONFIG's value of this KEY; may be repeated")
	flags.StringArrayVar(&f.vary, "vary", nil, "with --devices: only these values of a setting, KEY=V1,V2…; may be repeated")
	flags.StringVar(&f.margin, "margin", "10%", "with --devices: share of the memory that a plan must leave free")
	flags.StringVar(&f.shard, "shard", "", "with --devices: search only the I-th of N parts: I/N, auto or auto/N")
	flags.StringSliceVar(&f.dimensions, "map", nil, "with --devices: two dimensions of map.png, such as tensor,stages (default: those that matter most)")
}

// complete offers names for the flags that take them.
func (f *planFlags) complete(cmd *cobra.Command) {
	names := func(list func() []string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return list(), cobra.ShellCompDirectiveNoFileComp
		}
	}
	for flag, list := range map[string]func() []string{
		"trainer": trainers, "schedules": searchable, "fix": plans.Keys, "vary": plans.Keys, "map": rankings.PlanDimensions,
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, names(list)); err != nil {
			panic(err) // a flag that register has not declared
		}
	}
}

// trainers lists what --trainer takes.
func trainers() []string {
	names := []string{plans.Any}
	for _, s := range configs.Stacks() {
		names = append(names, s.Name)
	}
	return names
}

// searchable lists what --schedules takes.
func searchable() []string {
	names := schedules.Names()
	for _, s := range configs.Searched() {
		names = append(names, s.Name)
	}
	return names
}

// known refuses a value of a flag that is not among some names.
func known(flag, value string, names []string) error {
	if slices.Contains(names, value) {
		return nil
	}
	return fmt.Errorf("--%s: unknown name %q; use %s%s", flag, value, strings.Join(names, ", "), nearest.Suggest(value, names))
}

// checkNames refuses names that stand for nothing.
func (f planFlags) checkNames() error {
	if f.trainer != "" {
		if err := known("trainer", f.trainer, trainers()); err != nil {
			return err
		}
	}
	for _, name := range f.schedules {
		if err := known("schedules", name, searchable()); err != nil {
			return err
		}
	}
	return flagged("map", figures.CheckDimensions(f.dimensions))
}

// check refuses flags of a search over plans without --devices.
func (f planFlags) check(flags *pflag.FlagSet) error {
	if flags.Changed("devices") {
		if f.devices < 1 {
			return fmt.Errorf("--devices %d: must be at least 1", f.devices)
		}
		if flags.Changed("schedules") && len(f.schedules) == 0 {
			return fmt.Errorf("--schedules: names no schedule; use some of %s", strings.Join(searchable(), ", "))
		}
		return f.checkNames()
	}
	for _, name := range ofPlans {
		if flags.Changed(name) {
			return fmt.Errorf("--%s: needs --devices, which says for how many devices plans are searched", name)
		}
	}
	return nil
}

// query reads the flags.
func (f planFlags) query(c *configs.Config, margin bool, rows int) (q plans.Query, err error) {
	q = plans.Query{Devices: f.devices, Trainer: f.trainer, Schedules: f.schedules, Fix: f.fix, Rows: rows}
	if q.Margin, err = share(f.margin); err != nil {
		return q, fmt.Errorf("--margin %s: %w", f.margin, err)
	}
	if !margin && c.Defined("machine.memory_margin") {
		q.Margin = c.Machine.MemoryMargin
	}
	if q.Vary, err = variations(f.vary); err != nil {
		return q, err
	}
	for _, v := range q.Vary {
		for _, value := range v.Values {
			if err := configs.CheckSet(v.Key + "=" + value); err != nil {
				return q, sweepError(err, q.Vary)
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

// share reads a share of a whole: 10% or 0.1.
func share(text string) (float64, error) {
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

func (f planFlags) run(ctx context.Context, cmd *cobra.Command, path string, o outputFlags, rows int) error {
	stderr := cmd.ErrOrStderr()
	c, err := lib.Load(path, o.sets...)
	if err != nil {
		return err
	}
	q, err := f.query(c, cmd.Flags().Changed("margin"), rows)
	if err != nil {
		return err
	}
	folder, err := f.folder(&o, q.Shard)
	if err != nil {
		return err
	}
	o.note(stderr, c.Inputs)
	q.Points = o.out != ""
	found, searched := f.search(ctx, c, q, o, stderr)
	if found == nil {
		return sweepError(searched, q.Vary)
	}
	if o.out = folder.Path; searched != nil {
		o.out = folder.Aside().Path
	} else {
		searched = f.explain(ctx, c, q, found)
	}
	written := f.save(ctx, c, q, found, o, stderr)
	err = errors.Join(printPlans(found.PlanRanking, o, cmd), written, searched)
	if err == nil && len(found.Plans) == 0 {
		return o.noPlan(found.PlanRanking)
	}
	return err
}

// folder returns the folder for files, that of a shard in --out.
func (f planFlags) folder(o *outputFlags, shard rankings.Shard) (folder files.Folder, err error) {
	o.noDash()
	to := o.out
	if f.shard != "" {
		if to == "" {
			return folder, errors.New("--out is missing: --shard needs it, for psim merge to find the part")
		}
		to = filepath.Join(to, shard.Folder())
	}
	folder = reports.PlansFolder(to)
	return folder, o.checkOut(folder)
}

// printPlans prints what was found in the wanted form; in words it tells on stderr what
// is not the same from run to run.
func printPlans(found rankings.PlanRanking, o outputFlags, cmd *cobra.Command) error {
	if o.json {
		return found.WriteJSON(cmd.OutOrStdout())
	}
	if !o.quiet && found.Space > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "psim: %s\n", reports.CountPlans(found))
	}
	return reports.WritePlanRanking(cmd.OutOrStdout(), found)
}

// search runs the search, and tells how far it is.
func (f planFlags) search(ctx context.Context, c *configs.Config, q plans.Query, o outputFlags, stderr io.Writer) (*plans.Answer, error) {
	p, start := newProgress(stderr, o.quiet), time.Now()
	found, err := plans.Search(ctx, c, q, func(now plans.Progress) {
		best := "none fits yet"
		if now.Best > 0 {
			best = "the best takes " + units.FormatDuration(now.Best)
		}
		p.say("%d of %d plans decided, %d simulated; %s", now.Decided, now.Space, now.Simulated, best)
	})
	p.clear()
	if found != nil {
		seconds := time.Since(start).Seconds()
		found.Seconds = &seconds
	}
	return found, err
}

// explain adds why the best plan wins and how sure that is, or what would fit.
func (f planFlags) explain(ctx context.Context, c *configs.Config, q plans.Query, found *plans.Answer) (err error) {
	if len(found.Plans) == 0 {
		found.WouldFit, err = q.Remedies(ctx, c)
		return err
	}
	found.Accuracy = accuracy(c)
	return found.Explain(ctx, c, q)
}

// accuracy tells how far off predictions of a configuration's stack on its device were; nil
// where it names no stack.
func accuracy(c *configs.Config) *rankings.StackAccuracy {
	if c.Offers() == nil {
		return nil
	}
	return published.Accuracy(c.Train.Stack, c.Machine.Device, c.Train.Precision)
}

// save writes the files into the folder, if there is one.
func (f planFlags) save(ctx context.Context, c *configs.Config, q plans.Query, found *plans.Answer, o outputFlags, stderr io.Writer) error {
	if o.out == "" {
		return nil
	}
	saved, err := found.Saved(c, q, versionName())
	if err != nil {
		return err
	}
	names, err := plans.Save(context.WithoutCancel(ctx), saved, o.out, f.dimensions)
	if err != nil {
		return failure{err}
	}
	what := strings.Join(names, ", ")
	if found.Partial {
		what += ", of what was found until the interrupt,"
	}
	o.wrote(stderr, what, o.out)
	return nil
}
