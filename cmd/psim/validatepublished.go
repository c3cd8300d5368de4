package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"psim/internal/files"
	"psim/internal/published"
	"psim/reports"
)

// publishedFlags are the flags of psim validate --published.
type publishedFlags struct {
	published, json, markdown bool
	out                       string
}

func (f *publishedFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.published, "published", false, "predict the rows of published tables")
	cmd.Flags().StringVar(&f.out, "out", "", "folder for the scatter plots of --published")
}

// run replays the tables of some names, all if there are none.
func (f publishedFlags) run(ctx context.Context, names []string, stdout, stderr io.Writer) error {
	tables, err := published.Select(names)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := (files.Folder{Path: f.out}).Check(); err != nil {
			return flagged("out", err)
		}
	}
	report, err := published.Replay(tables)
	if err != nil {
		return failure{err}
	}
	if f.out != "" {
		if err := f.draw(ctx, report); err != nil {
			return err
		}
		fmt.Fprintln(stderr, "wrote", f.out)
	}
	switch {
	case f.json:
		return report.WriteJSON(stdout)
	case f.markdown:
		pictures := ""
		if f.out != "" {
			pictures = filepath.Base(f.out)
		}
		return report.WriteMarkdown(stdout, pictures)
	}
	if len(names) == 0 {
		return report.WriteSummary(stdout)
	}
	return report.WriteText(stdout)
}

// draw writes a scatter plot for every source.
func (f publishedFlags) draw(ctx context.Context, r published.Report) error {
	figures := r.Figures()
	var list []files.File
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		list = append(list, files.File{Path: name + ".png", Render: func(w io.Writer) error {
			return reports.Scatter(w, reports.PNG, figures[name])
		}})
	}
	return failed(files.Folder{Path: f.out}.Write(ctx, list))
}
