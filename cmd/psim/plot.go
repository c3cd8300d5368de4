package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psim/reports"
	"psim/schedules/graph"
)

func newPlot() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "plot KIND RESULT…",
		Short: "draw figures from saved results: timeline, memory or compare",
		Long: `plot draws a figure from results that psim has written. A RESULT is the folder or
the result.json in it. Several timelines are drawn one above the other on one
time axis; compare draws two, and how far the second is from the first, or one
that was measured below its own prediction.`,
		Example: `  psim plot timeline out/gpipe
  psim plot timeline out/gpipe out/1f1b --out both.svg
  psim plot memory out/gpipe --out memory.png
  psim plot compare out/gpipe out/1f1b`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("psim plot takes a KIND (timeline, memory or compare) and at least one RESULT\nsee \"psim plot --help\"")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, results := args[0], args[1:]
			if out == "" {
				out = kind + ".png"
			}
			draw, err := figure(kind, results, strings.TrimPrefix(filepath.Ext(out), "."))
			if err != nil {
				return err
			}
			if err := writeFiles(cmd.Context(), []file{{out, draw}}); err != nil {
				return fmt.Errorf("--out %w", err)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "wrote", out)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write, .png or .svg (default KIND.png)")
	return cmd
}

// pictureFormat is the format that a file's name asks for, or nothing.
func pictureFormat(path string) string {
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	if format != reports.PNG && format != reports.SVG {
		return ""
	}
	return format
}

// figure loads what a kind of figure needs and returns its renderer.
func figure(kind string, results []string, format string) (func(io.Writer) error, error) {
	if format != reports.PNG && format != reports.SVG {
		return nil, fmt.Errorf("--out: the file must end in .png or .svg")
	}
	switch kind {
	case "timeline":
		return timelineFigure(results, format)
	case "memory":
		if len(results) > 1 {
			return nil, fmt.Errorf("psim plot memory takes one RESULT, not %d", len(results))
		}
		return memoryFigure(results[0], format)
	case "compare":
		return compareFigure(results, format)
	}
	return nil, fmt.Errorf("there is no figure %q; there are timeline, memory and compare", kind)
}

// timelineFigure loads the traces of results.
func timelineFigure(results []string, format string) (func(io.Writer) error, error) {
	var panels []reports.Panel
	title := "timelines"
	for _, path := range results {
		r, trace, err := loadTrace(path)
		if err != nil {
			return nil, err
		}
		if trace.End() == 0 {
			return nil, fmt.Errorf("%s: the run takes no time, so there is nothing to draw", path)
		}
		panel := reports.Panel{Trace: trace}
		if len(results) > 1 {
			panel.Label = panelLabel(r)
		} else {
			title = pictureTitle(r, trace)
		}
		panels = append(panels, panel)
	}
	return func(w io.Writer) error { return reports.Timeline(w, format, title, panels...) }, nil
}

// loadTrace reads a result and its trace, which must be there.
func loadTrace(path string) (reports.Result, *graph.Trace, error) {
	run, err := loadRun(path)
	if err == nil && run.Trace == nil {
		err = fmt.Errorf("%s: the result has no trace.csv beside it; run psim run again with --out", path)
	}
	return run.Result, run.Trace, err
}

// pictureTitle is the title of a trace, with the name of its configuration, and
// whether it was measured.
func pictureTitle(r reports.Result, t *graph.Trace) string {
	title := reports.Title(t, r.TensorParallel)
	if r.Name != "" && r.Name != t.Graph.Name {
		title = r.Name + "  ·  " + title
	}
	if r.Kind == reports.Measured {
		title += "  ·  measured"
	}
	return title
}

// panelLabel names one of several results.
func panelLabel(r reports.Result) string {
	name := r.Name
	if r.Schedule != r.Name {
		name += " (" + r.Schedule + ")"
	}
	return name + ", " + r.Kind
}

// memoryFigure loads the memory curves of a result.
func memoryFigure(path, format string) (func(io.Writer) error, error) {
	r, folder, err := loadResult(path)
	if err != nil {
		return nil, err
	}
	title := "memory  ·  " + panelLabel(r)
	curves, err := readFile(filepath.Join(folder, "memory.csv"), reports.ReadMemoryCSV)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%s: the run has no memory.csv, because nothing in it uses memory; add [memory] or use [model]", path)
	}
	if err != nil {
		return nil, err
	}
	f := reports.MemoryFigure{Title: title, Curves: curves, End: time.Duration(r.StepTime * float64(time.Second))}
	for _, rank := range r.Ranks {
		if rank.MemoryCapacity > 0 {
			f.Capacity = append(f.Capacity, rank.MemoryCapacity)
		}
	}
	if len(f.Capacity) != len(r.Ranks) {
		f.Capacity = nil
	}
	return func(w io.Writer) error { return reports.Memory(w, format, f) }, nil
}

// loadResult reads a result by its folder or file and returns the folder.
func loadResult(path string) (reports.Result, string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return reports.Result{}, "", fmt.Errorf("%s: %s; a result is a folder that psim run has written, or the result.json in it", path, reason(err))
	}
	if info.IsDir() {
		path = filepath.Join(path, "result.json")
	}
	r, err := readFile(path, reports.ReadResult)
	if os.IsNotExist(err) {
		return r, "", fmt.Errorf("%s: no such file; a result is a folder that psim run has written", path)
	}
	return r, filepath.Dir(path), err
}

// readFile opens a file and parses it; errors begin with its name.
func readFile[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	var zero T
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return zero, err
	}
	if err == nil && !info.Mode().IsRegular() {
		return zero, fmt.Errorf("%s: is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return zero, fmt.Errorf("%s: %s", path, reason(err))
	}
	defer f.Close()
	v, err := read(f)
	if err != nil {
		return zero, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}
