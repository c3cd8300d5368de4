package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"psim/reports"
)

// compareFlags are the flags of psim compare.
type compareFlags struct {
	json, csv bool
	out       string
}

func newCompare() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "hold two results against each other, predicted or measured",
		Long: `compare says by how much result B differs from result A, and where the difference
comes from: compute, communication that no work hides, waiting for other ranks,
and dispatch (work that is ready and has not started); by kind of task and by
rank. A and B are folders that psim run or psim exec has written, or the
result.json in them. A folder alone must be one of psim exec: its measured step,
then B, is held against the prediction that was made for it, A.

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
			return fmt.Errorf("compare takes two results, or one that was measured, not %d\nsee \"psim compare --help\"", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), args, f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print the comparison as one JSON object and nothing else")
	flags.BoolVar(&f.csv, "csv", false, "print one row per quantity as CSV and nothing else")
	flags.StringVar(&f.out, "out", "", "folder to write comparison.json and compare.png to")
	return cmd
}

func runCompare(ctx context.Context, args []string, f compareFlags, stdout, stderr io.Writer) error {
	if f.json && f.csv {
		return errors.New("--json and --csv exclude each other: stdout holds one of them")
	}
	a, b, err := loadPair(args)
	if err != nil {
		return err
	}
	c := reports.Compare(a, b)
	if f.out != "" {
		if err := f.write(ctx, c, a, b, stderr); err != nil {
			return err
		}
	}
	switch {
	case f.json:
		return c.WriteJSON(stdout)
	case f.csv:
		return c.WriteCSV(stdout)
	}
	return c.WriteTable(stdout)
}

// compareFiles are the files that a comparison may write into a folder.
var compareFiles = [...]string{"compare.png", "comparison.json"}

// write puts the files of a comparison into the folder of --out; the picture
// only if there is something to draw.
func (f compareFlags) write(ctx context.Context, c reports.Comparison, a, b reports.Run, stderr io.Writer) error {
	ours := hasComparison(f.out)
	if name := present(f.out, compareFiles[:]); name != "" && !ours {
		return fmt.Errorf("--out %s: holds a %s that psim has not written; name another folder", f.out, name)
	}
	if err := checkFolder(f.out); err != nil {
		return err
	}
	files := []file{{filepath.Join(f.out, compareFiles[1]), c.WriteJSON}}
	written := compareFiles[1]
	picture := filepath.Join(f.out, compareFiles[0])
	if drawable(a) && drawable(b) {
		draw := func(w io.Writer) error { return reports.CompareTimelines(w, reports.PNG, a, b) }
		files = append([]file{{picture, draw}}, files...)
		written = compareFiles[0] + ", " + written
	}
	if err := writeFiles(ctx, files, f.out); err != nil {
		return failure{err}
	}
	if len(files) == 1 && ours { // an earlier one would pass for this one's
		if err := os.Remove(picture); err != nil && !os.IsNotExist(err) {
			return failure{fmt.Errorf("%s: cannot be removed: %s", picture, reason(err))}
		}
	}
	fmt.Fprintf(stderr, "wrote %s in %s\n", written, f.out)
	return nil
}

// drawable reports whether a run has a timeline.
func drawable(r reports.Run) bool { return r.Trace != nil && r.Trace.End() > 0 }

// hasComparison reports whether a comparison has been written to a folder.
func hasComparison(folder string) bool {
	data, err := os.ReadFile(filepath.Join(folder, compareFiles[1]))
	var c struct {
		ByPart *reports.Parts `json:"by_part"`
	}
	return err == nil && json.Unmarshal(data, &c) == nil && c.ByPart != nil
}

// loadPair reads what to compare: two results, or a measured one and the
// prediction in its folder.
func loadPair(args []string) (a, b reports.Run, err error) {
	if len(args) == 2 {
		if a, err = loadRun(args[0]); err == nil {
			b, err = loadRun(args[1])
		}
		return a, b, err
	}
	if b, err = loadRun(args[0]); err == nil && b.Result.Kind != reports.Measured {
		return a, b, fmt.Errorf("%s: is a prediction, so there is nothing to hold it against; name two results: psim compare A B", args[0])
	}
	if err == nil {
		a, err = loadPrediction(args[0], b.Result)
	}
	return a, b, err
}

// loadPrediction reads the prediction of a measured result: from the folder
// predicted beside it, or without tasks from the result itself.
func loadPrediction(path string, measured reports.Result) (reports.Run, error) {
	folder := path
	if !isFolder(folder) {
		folder = filepath.Dir(folder)
	}
	folder = filepath.Join(folder, "predicted")
	if !isFolder(folder) {
		if measured.Predicted != nil {
			return reports.Run{Result: *measured.Predicted}, nil
		}
		return reports.Run{}, fmt.Errorf("%s: holds no prediction; name two results: psim compare A B", path)
	}
	run, err := loadRun(folder)
	if p := measured.Predicted; err == nil && p != nil && p.StepTime != run.Result.StepTime {
		err = fmt.Errorf("%s: is not the prediction of %s, whose result.json holds another one; name two results: psim compare A B", folder, path)
	}
	return run, err
}

// loadRun reads a result and its trace, if that is there.
func loadRun(path string) (reports.Run, error) {
	r, folder, err := loadResult(path)
	if err != nil {
		return reports.Run{}, err
	}
	trace, err := readFile(filepath.Join(folder, "trace.csv"), reports.ReadTraceCSV)
	if os.IsNotExist(err) {
		return reports.Run{Result: r}, nil
	}
	if err != nil {
		return reports.Run{Result: r}, err
	}
	if ranks := trace.Graph.Ranks(); ranks != len(r.Ranks) {
		return reports.Run{Result: r}, fmt.Errorf("%s: trace.csv has %d ranks and result.json %d; they are not of one run", path, ranks, len(r.Ranks))
	}
	if tasks := len(trace.Graph.Tasks); tasks != r.Tasks {
		return reports.Run{Result: r}, fmt.Errorf("%s: trace.csv has %d tasks and result.json %d; they are not of one run", path, tasks, r.Tasks)
	}
	if end := trace.End().Seconds(); end != r.StepTime {
		return reports.Run{Result: r}, fmt.Errorf("%s: the step ends after %g s in trace.csv and %g s in result.json; they are not of one run", path, end, r.StepTime)
	}
	trace.Graph.Name = r.Schedule
	if d := r.DataParallel; d > 1 && len(r.Ranks)%d == 0 {
		trace.Graph.Shape.Ranks, trace.Graph.Shape.Replicas = len(r.Ranks)/d, d
	}
	return reports.Run{Result: r, Trace: trace}, nil
}

// compareFigure loads two runs and returns the renderer of their timelines.
func compareFigure(results []string, format string) (func(io.Writer) error, error) {
	if len(results) > 2 {
		return nil, fmt.Errorf("psim plot compare takes two results, or one that was measured, not %d", len(results))
	}
	a, b, err := loadPair(results)
	if err != nil {
		return nil, err
	}
	for i, run := range []reports.Run{a, b} {
		switch path := results[min(i, len(results)-1)]; {
		case run.Trace == nil && i == 0 && len(results) == 1:
			return nil, fmt.Errorf("%s: its prediction has no trace.csv, so there is nothing to draw", path)
		case run.Trace == nil:
			return nil, fmt.Errorf("%s: the result has no trace.csv beside it, so there is nothing to draw", path)
		case !drawable(run):
			return nil, fmt.Errorf("%s: the run takes no time, so there is nothing to draw", path)
		}
	}
	return func(w io.Writer) error { return reports.CompareTimelines(w, format, a, b) }, nil
}
