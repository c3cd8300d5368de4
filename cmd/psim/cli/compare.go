package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	lib "psim"
	"psim/courses/coursefile"
	"psim/reports"
	"psim/results"
	"psim/results/compare"
)

const compareManual = `compare prints how much result B differs from result A, and where the difference
comes from: compute, communication that no work hides, waiting for other ranks,
and dispatch (work that is ready but has not started); by kind of task and by
rank. A and B are folders that psim run or psim exec has written, or the
result.json in them; MODE=WORKERS, which psim predicts as for psim plot; or files that a
course's own scripts have saved (see psim plot --help). A single folder must be one of
psim exec: its prediction is then A, and its measured step B.

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
	a, b, err := loadSides(ctx, args)
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
func loadSides(ctx context.Context, args []string) (a, b results.Run, err error) {
	if len(args) == 1 {
		return coursefile.LoadMeasured(args[0])
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
