package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	lib "psim"
	"psim/plans"
	"psim/reports"
	"psim/results/rankings"
)

const searchManual = `search --devices N finds the best plan for N devices, whatever plan CONFIG has: over
replicas, tensor-parallel groups within a node, stages, stages per rank, microbatches,
schedules, recomputation, ZeRO and sequence parallelism. Model, batch.global, machine,
optimizer and precision stay. --fix KEY keeps a value, --vary KEY=V1,V2 restricts a key
to some, or adds one that is not among these; --trainer keeps to what a stack offers, by
default the configuration's. Plans must leave --margin of the memory free. A plan is
discarded unseen only where a bound says that its step is longer than that of all plans
that are printed, or that it does not fit: "gap" is 0 where the best is proved.
--out writes plans.json, points.csv (a row for every plan), search.json, pareto.png and
map.png, the best step over two dimensions. --shard I/N searches a part, for job arrays;
psim merge joins them.

Without --devices, search simulates CONFIG with every schedule that can run it, with 1,
2 and 4 stages per rank where a schedule can hold several, and for a [model] with every
number of equal microbatches. It ranks the plans that fit in the memory of a rank by
step time. The schedules "auto" and "auto-v", which search for an order themselves, are
among them. Devices, batch and machine stay as CONFIG has them. If all stages have the
same [times], a schedule with V stages per rank gives each a V-th of them, so that every
rank does the same work. Where no plan fits, search lists what they need, and ends with 1.

--out writes plans.json and pareto.png, which shows the step time of every plan
against the memory it needs. An interrupted search keeps what it has found.`

func newSearch() *cobra.Command {
	var f outputFlags
	var plans planFlags
	var rows int
	cmd := &cobra.Command{
		Use:   "search CONFIG",
		Short: "find the best plan, for a number of devices or under a memory limit",
		Long:  searchManual,
		Example: `  psim search gpipe --devices 8 --trainer torchtitan
  psim search gpipe --devices 8 --schedules ddp,1f1b --margin 15% --out out/plans
  psim search gpipe --devices 8 --fix batch.micro --vary schedule.stages=2,4 --json
  psim search gpipe
  psim search gpipe --set machine.compute.memory=16GB --json
  psim search my.toml --out out/plans`,
		Args:              exactly(1, "one CONFIG, a file or the name of an example"),
		ValidArgsFunction: completeExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if rows < 1 {
				return fmt.Errorf("--rows %d: must be at least 1", rows)
			}
			if err := plans.check(cmd.Flags()); err != nil {
				return err
			}
			if plans.devices > 0 {
				return plans.run(cmd.Context(), cmd, args[0], f, rows)
			}
			return runSearch(cmd.Context(), args[0], f, rows, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.registerInput(flags)
	f.registerVerbose(flags)
	f.registerOutput(flags, "print the plans as one JSON object and nothing else", "", "folder to write plans.json and pareto.png to")
	flags.IntVar(&rows, "rows", 20, "how many plans to print; with --devices, to prove and to keep")
	plans.register(flags)
	plans.complete(cmd)
	return cmd
}

func runSearch(ctx context.Context, path string, f outputFlags, rows int, stdout, stderr io.Writer) error {
	c, err := lib.Load(path, f.sets...)
	if err != nil {
		return err
	}
	f.note(stderr, c.Inputs)
	f.noDash()
	folder := reports.PlansFolder(f.out)
	if err := f.checkOut(folder); err != nil {
		return err
	}
	start := time.Now()
	p := newProgress(stderr, f.quiet)
	found, err := plans.Schedules(ctx, c, func(plan, of int, settings []string) { p.say("plan %d of %d: %v", plan, of, settings) })
	p.clear()
	if found == nil {
		return err
	}
	if f.out = folder.Path; err != nil {
		f.out = folder.Aside().Path
	}
	err = errors.Join(f.report(ctx, c.Name(), found, rows, time.Since(start), stdout, stderr), err)
	if err == nil && (len(found.Plans) == 0 || !found.Plans[0].Fits()) {
		return f.nothingFits()
	}
	return err
}

// report prints what was found, and writes it into the folder. What was found until
// an interrupt is kept.
func (f outputFlags) report(ctx context.Context, name string, found *plans.ScheduleRanking, rows int, took time.Duration, stdout, stderr io.Writer) error {
	var written error
	if f.out != "" {
		names, err := found.Save(context.WithoutCancel(ctx), f.out, name+" · plans")
		if err != nil {
			written = failure{err}
		} else {
			what := strings.Join(names, ", ")
			if found.Partial {
				what += ", of what was found until the interrupt,"
			}
			f.wrote(stderr, what, f.out)
		}
	}
	if !f.json {
		return errors.Join(reports.WriteRanking(stdout, found.Ranking, rows), written)
	}
	seconds := took.Seconds()
	found.Seconds = &seconds
	return errors.Join(found.WriteJSON(stdout), written)
}

// noPlan says that a search has no answer, which in words the table has said.
func (f outputFlags) noPlan(found rankings.PlanRanking) error {
	if found.Nothing != "" {
		return f.inWords(failure{fmt.Errorf("there is no such plan: %s", found.Nothing)})
	}
	return f.nothingFits()
}

// nothingFits says that no plan of a search does.
func (f outputFlags) nothingFits() error {
	return f.inWords(failure{errors.New("no plan fits in memory")})
}

// inWords marks an error that the words on stdout have said, where these are what is printed.
func (f outputFlags) inWords(err error) error {
	if f.json {
		return err
	}
	return said{err}
}
