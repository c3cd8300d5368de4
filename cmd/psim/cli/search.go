package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psim/plans"
	"psim/reports"
	"psim/results/rankings"
)

type searchFlags struct {
	outputFlags
	targetFlags
	planFlags
	submitFlags
	rows int
}

const searchManual = `search --devices N finds the best plan for N devices, whatever plan CONFIG has: over
replicas, tensor-parallel groups within a node, stages, stages per rank, microbatches,
schedules, recomputation, ZeRO and sequence parallelism. Model, batch.global, machine,
optimizer and precision stay. --fix KEY keeps a value. --vary KEY=V1,V2 restricts a key
to some values, or adds a key that is not among these. --trainer keeps to the features of
a stack, by default the configuration's. Plans must leave --margin of the memory free. A
plan is discarded without simulation only if a bound shows that its step is longer than
that of all plans that are printed, or that it does not fit: "gap" is 0 if the best is
proved. The table has the best plan of every layout: of plans that divide the network
alike. --out writes plan-1.toml and so on, the configuration of every plan for psim run;
plans.json, points.csv (a row for every plan), search.json, pareto.png and map.png, the
best step over two dimensions. --shard I/N searches a part, for job arrays; psim merge
joins them. --submit slurm does both on a cluster (docs/clusters.md). --devices N,N…
makes a table with the best plan for each number; --out then has a folder for each.

Without --devices, search simulates CONFIG with every schedule that can run it, with 1,
2 and 4 stages per rank if a schedule can hold several, and for a [model] with every
number of equal microbatches. It ranks the plans that fit in the memory of a rank by
step time. The schedules "auto" and "auto-v", which search for an order themselves, are
among them. Devices, batch and machine stay as CONFIG has them. If all stages have the
same [times], a schedule with V stages per rank gives each a V-th of them, so that every
rank does the same work: its row says "times divided by V", and its settings hold the
divided times. (psim run takes [times] as they are, of each stage.) If no plan fits,
search lists how much memory they need, and its exit code is 1.

--out writes plans.json, plan-1.toml and so on, and pareto.png, which shows the step time
of every plan against the memory it needs. An interrupted search keeps the plans that it
has found.`

func newSearch() *cobra.Command {
	var f searchFlags
	cmd := &cobra.Command{
		Use:   "search CONFIG",
		Short: "find the best plan, for a number of devices or under a memory limit",
		Long:  searchManual,
		Example: `  psim search gpipe --devices 8 --trainer torchtitan
  psim search gpipe --devices 8 --schedules ddp,1f1b --margin 15% --out out/plans
  psim search gpipe --devices 8,16,32 --set data.tokens=300B
  psim search gpipe --devices 8 --fix batch.micro --vary schedule.stages=2,4 --json
  psim search gpipe
  psim search gpipe --set machine.compute.memory=16GB --json
  psim search my.toml --out out/plans`,
		Args:              exactArgs(1, "one CONFIG, "+configArgument),
		ValidArgsFunction: completeConfig,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	f.registerInput(flags)
	f.registerVerbose(flags)
	f.registerOutput(flags, outputHelp{
		json: "print the plans as one JSON object and nothing else",
		csv:  "with --devices: print a row per plan, or per number of devices, as CSV and nothing else",
		out:  "folder to write plans.json, plan-1.toml … and pareto.png to",
	})
	flags.IntVar(&f.rows, "rows", 20, "how many plans to print; with --devices, to prove and to keep")
	f.planFlags.register(flags)
	f.submitFlags.register(flags)
	f.targetFlags.register(cmd)
	f.planFlags.complete(cmd)
	return cmd
}

// run searches as the flags say.
func (f searchFlags) run(cmd *cobra.Command, path string) error {
	if len(f.numbers) > 0 {
		f.devices, f.target.Devices = f.numbers[0], f.numbers[0]
	}
	if err := f.targetFlags.check(cmd.Flags()); err != nil {
		return err
	}
	if f.rows < 1 {
		return fmt.Errorf("--rows %d: must be at least 1", f.rows)
	}
	if err := cmp.Or(
		f.planFlags.check(cmd.Flags()), f.submitFlags.check(cmd.Flags(), f.out), f.exclusive(),
	); err != nil {
		return err
	}
	switch {
	case f.engine != "":
		return f.submitSearch(cmd, path)
	case len(f.numbers) > 1:
		return f.searchNumbers(cmd, path)
	case f.devices > 0:
		return f.searchPlans(cmd, path)
	}
	return f.searchSchedules(cmd.Context(), path, streamsOf(cmd))
}

// searchSchedules tries every schedule on the devices of the configuration.
func (f searchFlags) searchSchedules(ctx context.Context, path string, std streams) error {
	c, err := f.load(ctx, path, f.sets)
	if err != nil {
		return err
	}
	f.note(std.err, c.Inputs)
	f.clearDash()
	folder := f.to(reports.PlansFolder(f.out, f.rows))
	folder.Inputs = c.Files()
	if err := f.checkOut(folder); err != nil {
		return err
	}
	start := time.Now()
	p := newProgress(std.err, f.quiet)
	ranking, err := plans.Schedules(ctx, c, func(plan, of int, settings []string) {
		p.showf("plan %d of %d: %v", plan, of, settings)
	})
	p.clear()
	if ranking == nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	if err != nil {
		folder = folder.Aside()
	}
	f.out = folder.Path
	unsaved := f.saveRanking(ctx, ranking, c.Name(), std.err)
	ranking.Seconds = &seconds // after saving: the files of two searches are equal
	err = errors.Join(f.printRanking(ranking, std.out), unsaved, err)
	if err == nil && (len(ranking.Plans) == 0 || !ranking.Plans[0].Fits()) {
		return f.nothingFitsError()
	}
	return err
}

// saveRanking writes the plans into the folder of --out. After an interrupt it keeps the plans that were
// found.
func (f searchFlags) saveRanking(
	ctx context.Context, ranking *plans.ScheduleRanking, name string, stderr io.Writer,
) error {
	if f.out == "" {
		return nil
	}
	to := f.to(reports.PlansFolder(f.out, f.rows))
	names, err := ranking.Save(context.WithoutCancel(ctx), to, name, f.rows)
	if err != nil {
		return failure{err}
	}
	f.reportPlans(stderr, names, ranking.Partial)
	return nil
}

// reportPlans prints which files of a search were written. It joins the names of the plans.
func (f outputFlags) reportPlans(stderr io.Writer, names []string, partial bool) {
	first := slices.Index(names, reports.PlanFile(1))
	last := first
	for last >= 0 && last+1 < len(names) && names[last+1] == reports.PlanFile(last+2-first) {
		last++
	}
	if last > first+1 {
		names = slices.Concat(names[:first+1], []string{"…"}, names[last:])
	}
	list := strings.ReplaceAll(strings.Join(names, ", "), ", …,", " …")
	if partial {
		list += ", of what was found until the interrupt,"
	}
	f.reportWritten(stderr, list, f.out)
}

func (f searchFlags) printRanking(ranking *plans.ScheduleRanking, stdout io.Writer) error {
	if f.json {
		return ranking.WriteJSON(stdout)
	}
	return reports.WriteRanking(stdout, ranking.Ranking, f.rows)
}

// noPlanError returns the failure of a search without any plan.
func (f outputFlags) noPlanError(ranking rankings.PlanRanking) error {
	if ranking.Nothing != "" {
		return f.reportedByTable(failure{fmt.Errorf("there is no such plan: %s", ranking.Nothing)})
	}
	return f.nothingFitsError()
}

// nothingFitsError returns the failure of a search in which no plan fits in memory.
func (f outputFlags) nothingFitsError() error {
	return f.reportedByTable(failure{errors.New("no plan fits in memory")})
}

// reportedByTable marks an error as reported if a table was printed, which says the same.
func (f outputFlags) reportedByTable(err error) error {
	if f.json {
		return err
	}
	return reported{err}
}
