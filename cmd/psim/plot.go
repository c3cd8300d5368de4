package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"psim/internal/files"
	"psim/reports"
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
			draw, err := figure(kind, results, pictureFormat(out))
			if nothing := new(nothingToDraw); errors.As(err, nothing) {
				_, err := fmt.Fprintf(cmd.ErrOrStderr(), "psim: no picture is drawn: %v\n", nothing)
				return err
			}
			if err != nil {
				return err
			}
			return writeOne(cmd, "out", out, draw)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write, .png or .svg (default KIND.png)")
	return cmd
}

// nothingToDraw says that a figure would be empty, which is worth a warning, as
// in psim run.
type nothingToDraw struct{ error }

// writeOne writes the file of a flag, and says so.
func writeOne(cmd *cobra.Command, flag, path string, render func(io.Writer) error) error {
	folder, name := filepath.Split(filepath.Clean(path))
	f := files.Folder{Path: filepath.Clean(folder), Owner: "plot", InPlace: true, Keep: func(string) bool { return true }}
	file := files.File{Path: name, Render: render}
	if !files.IsFolder(f.Path) { // for the error
		f.Path, file.Path = "", path
		return flagged(flag, f.Write(cmd.Context(), nil, file))
	}
	if err := f.Write(cmd.Context(), []files.File{file}); err != nil {
		return flagged(flag, err)
	}
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), "wrote", visible(path))
	return err
}

// pictureFormat returns the format that a file's name asks for, or nothing.
func pictureFormat(path string) string {
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	if format != reports.PNG && format != reports.SVG {
		return ""
	}
	return format
}

// figure loads what a kind of figure needs and returns its renderer.
func figure(kind string, results []string, format string) (func(io.Writer) error, error) {
	if format == "" {
		return nil, fmt.Errorf("--out: the file must end in .png or .svg")
	}
	switch kind {
	case "timeline":
		return timelineFigure(results, format)
	case "memory":
		if len(results) > 1 {
			return nil, fmt.Errorf("psim plot memory takes one RESULT, not %d", len(results))
		}
		f, err := reports.LoadMemory(results[0])
		if err == nil && !f.Drawable() {
			err = nothingToDraw{fmt.Errorf("%s: the run takes no time or no memory, so there is nothing to draw", results[0])}
		}
		return func(w io.Writer) error { return reports.Memory(w, format, f) }, err
	case "compare":
		return compareFigure(results, format)
	}
	return nil, fmt.Errorf("unknown figure %q; use timeline, memory or compare", kind)
}

func timelineFigure(results []string, format string) (func(io.Writer) error, error) {
	var runs []reports.Run
	for _, path := range results {
		run, err := reports.Load(path)
		switch {
		case err != nil:
			return nil, err
		case run.Trace == nil:
			return nil, fmt.Errorf("%s: the result has no trace.csv beside it; run psim run again with --out", path)
		case !run.Drawable():
			return nil, nothingToDraw{fmt.Errorf("%s: the run takes no time, so there is nothing to draw", path)}
		}
		runs = append(runs, run)
	}
	return func(w io.Writer) error { return reports.Timelines(w, format, runs...) }, nil
}

func compareFigure(results []string, format string) (func(io.Writer) error, error) {
	if len(results) > 2 {
		return nil, fmt.Errorf("psim plot compare takes two results, or one that was measured, not %d", len(results))
	}
	a, b, err := reports.LoadPair(results...)
	if err != nil {
		return nil, err
	}
	for i, run := range []reports.Run{a, b} {
		switch path := results[min(i, len(results)-1)]; {
		case run.Trace == nil && i == 0 && len(results) == 1:
			return nil, fmt.Errorf("%s: its prediction has no trace.csv, so there is nothing to draw", path)
		case run.Trace == nil:
			return nil, fmt.Errorf("%s: the result has no trace.csv beside it, so there is nothing to draw", path)
		case !run.Drawable():
			return nil, nothingToDraw{fmt.Errorf("%s: the run takes no time, so there is nothing to draw", path)}
		}
	}
	return func(w io.Writer) error { return reports.CompareTimelines(w, format, a, b) }, nil
}
