package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	lib "psim"
	"psim/courses/coursefile"
	"psim/launch"
	"psim/reports"
	"psim/results"
	"psim/results/compare"
)

const compareManual = `compare prints how much result B differs from result A, and where the difference
comes from: compute, communication that no work hides, waiting for other ranks,
and dispatch (work that is ready but has not started); by kind of task and by
rank. A and B are folders that psim run or psim exec has written, or the
result.json in them; MODE=WORKERS, which psim predicts as for psim plot; or files that a
course's own scripts have saved (see psim plot --help). One of them may be the log of a
run of the other's plan (docs/logs.md). A single folder must be one of psim exec: its
prediction is then A, and its measured step B.

Steps that differ in work (in samples, in the length of sequences, in the network) do
not compare by their times: the throughput is then the first row, and a warning says
how they differ.

Differences are B − A: a measured step that takes longer than predicted has a
positive error. Under "B against A" a percentage is of A's own value; under "of
A's step" it is of A's step time, so that parts add up to the error of the step.`

func newCompare() *cobra.Command {
	var f outputFlags
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "compare two results, predicted or measured, and explain the difference",
		Long:  compareManual,
		Example: `  psim compare out/gpipe out/1f1b
  psim compare out/measured                           of psim exec, against its prediction
  psim compare out/gpipe train.log                    a prediction, and the log of its run
  psim compare out/gpipe out/1f1b --out out/both      comparison.json and compare.png`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			given := cmp.Or(strings.Join(args, " "), "nothing")
			return fmt.Errorf("compare takes two results, or one that was measured, not %s\n"+
				"see \"psim compare --help\"", given)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), args, f, streamsOf(cmd))
		},
	}
	f.registerOutput(cmd.Flags(), outputHelp{
		json: "print the comparison as one JSON object and nothing else",
		csv:  "print one row per quantity as CSV and nothing else",
		out:  "folder to write comparison.json and compare.png to",
	})
	return cmd
}

func runCompare(ctx context.Context, args []string, f outputFlags, std streams) error {
	if err := f.exclusive(); err != nil {
		return err
	}
	f.clearDash()
	to := f.to(reports.ComparisonFolder(f.out))
	if err := f.checkOut(to); err != nil {
		return err
	}
	a, b, err := loadSides(ctx, args, std.err)
	if err != nil {
		return err
	}
	c := lib.Compare(a, b)
	var unsaved error
	if f.out != "" {
		var names []string
		if names, unsaved = reports.SaveComparison(ctx, to, c, [2]results.Run{a, b}); unsaved == nil {
			f.reportWritten(std.err, strings.Join(names, ", "), f.out)
		}
	}
	return errors.Join(f.printComparison(c, std), failed(unsaved))
}

// loadSides loads the two results to compare, and predicts those of the form MODE=WORKERS.
func loadSides(ctx context.Context, args []string, said io.Writer) (a, b results.Run, err error) {
	if len(args) == 1 {
		return coursefile.LoadMeasured(args[0])
	}
	if a, b, ok, err := loggedSides(args, said); ok || err != nil {
		return a, b, err
	}
	for i, run := range []*results.Run{&a, &b} {
		predicted := false
		if *run, predicted, err = predictMode(ctx, args[i], ""); err == nil && !predicted {
			*run, err = coursefile.LoadRun(args[i])
		}
		if err != nil {
			return a, b, err
		}
	}
	return a, b, nil
}

// printComparison prints a comparison in the form that the flags ask for.
func (f outputFlags) printComparison(c compare.Comparison, std streams) error {
	switch {
	case f.json:
		return c.WriteJSON(std.out)
	case f.csv:
		return reports.WriteComparisonCSV(std.out, c)
	}
	return reports.WriteComparison(std.out, c)
}

// loggedSides loads a result and the log of a run of its plan, in either order; false where neither is a log. What the
// log measured is said.
func loggedSides(names []string, said io.Writer) (a, b results.Run, ok bool, err error) {
	for i, name := range names {
		steps := stepsOf(name)
		if steps == nil {
			continue
		}
		other := names[1-i]
		if stepsOf(other) != nil {
			return a, b, false, fmt.Errorf("%s: is a log, as is %s; name one log, and a result of psim's", other, name)
		}
		planned, err := coursefile.LoadRun(other)
		if err != nil {
			return a, b, false, err
		}
		measured, err := runOfLog(name, steps, planned.Result)
		if err == nil {
			err = steps.WriteText(said)
		}
		if a, b = planned, measured; i == 0 {
			a, b = measured, planned
		}
		return a, b, err == nil, err
	}
	return a, b, false, nil
}

// stepsOf returns what a file says of its steps if it is a log, and nil otherwise.
func stepsOf(name string) *launch.LoggedSteps {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > launch.MostBytes {
		return nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return launch.Steps(data)
}

// runOfLog makes a measured run of what a log says, of the plan of a result. What its step is made of is not known.
func runOfLog(name string, steps *launch.LoggedSteps, plan results.Result) (results.Run, error) {
	steps.Complete(launch.LoggedPlan{
		Samples: int(plan.StepSamples() + 0.5), Tokens: plan.SequenceLength, Devices: plan.Devices,
	})
	if steps.StepTime <= 0 {
		return results.Run{}, fmt.Errorf("%s: prints rates, and %s does not say how many samples a step has", name,
			plan.Name)
	}
	r := results.Result{
		Schema: results.Schema, Kind: results.Measured, Name: filepath.Base(name), Schedule: plan.Schedule,
		FullySharded: plan.FullySharded, Stages: plan.Stages, VirtualStages: plan.VirtualStages,
		Microbatches: plan.Microbatches, DataParallel: plan.DataParallel, TensorParallel: plan.TensorParallel,
		Devices: plan.Devices, StepTime: steps.StepTime, Bubble: results.UnknownBubble(), FitsMemory: true,
		Ranks: make([]results.RankResult, len(plan.Ranks)), Work: results.Work{SequenceLength: plan.SequenceLength},
		Measurement: &results.Measurement{RunsMade: 1, TimesComparable: true, Steps: []float64{steps.StepTime}},
		Warnings:    []string{},
	}
	for i := range r.Ranks {
		r.Ranks[i].Rank = i
	}
	if steps.Batch > 0 {
		r.Throughput.Samples = float64(steps.Batch) / steps.StepTime
	}
	return results.Run{Result: r}, nil
}
