package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	lib "psim"
	"psim/courses/coursefile"
	"psim/reports"
	"psim/results"
	"psim/results/compare"
)

func newCompare() *cobra.Command {
	var f outputFlags
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "compare two results, predicted or measured, and explain the difference",
		Long: `compare says by how much result B differs from result A, and where the difference
comes from: compute, communication that no work hides, waiting for other ranks,
and dispatch (work that is ready and has not started); by kind of task and by
rank. A and B are folders that psim run or psim exec has written, or the
result.json in them; MODE=WORKERS, which psim predicts as for psim plot; or what a
course's own scripts have saved (see psim plot --help). A single folder must be one of
psim exec: its prediction is then A, and its measured step B.

Differences are B − A: a measured step that takes longer than predicted has a
positive error. Under "B against A" a percentage is of A's own value; under "of
A's step" it is of A's step time, so that parts add up to the error of the step.`,
		Example: `  psim compare out/gpipe out/1f1b
  psim compare out/measured                           of psim exec, against its prediction
  psim compare out/gpipe out/1f1b --out out/both      comparison.json and compare.png`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			return fmt.Errorf("compare takes two results, or one that was measured, not %s\nsee \"psim compare --help\"", cmp.Or(strings.Join(args, " "), "nothing"))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), args, f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.registerOutput(cmd.Flags(), "print the comparison as one JSON object and nothing else", "print one row per quantity as CSV and nothing else",
		"folder to write comparison.json and compare.png to")
	return cmd
}

func runCompare(ctx context.Context, args []string, f outputFlags, stdout, stderr io.Writer) error {
	if err := f.exclusive(); err != nil {
		return err
	}
	f.noDash()
	if err := f.checkOut(reports.ComparisonFolder(f.out)); err != nil {
		return err
	}
	a, b, err := sides(ctx, args)
	if err != nil {
		return err
	}
	c := lib.Compare(a, b)
	var written error
	if f.out != "" {
		var names []string
		if names, written = reports.SaveComparison(ctx, f.out, c, [2]results.Run{a, b}); written == nil {
			f.wrote(stderr, strings.Join(names, ", "), f.out)
		}
	}
	return errors.Join(f.printComparison(c, stdout), failed(written))
}

// sides loads what is to be compared, and predicts MODE=WORKERS.
func sides(ctx context.Context, args []string) (a, b results.Run, err error) {
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

// printComparison writes a comparison to stdout in the wanted form.
func (f outputFlags) printComparison(c compare.Comparison, stdout io.Writer) error {
	switch {
	case f.json:
		return c.WriteJSON(stdout)
	case f.csv:
		return reports.WriteComparisonCSV(stdout, c)
	}
	return reports.WriteComparison(stdout, c)
}
