// Package reports turns results into what people read: the tables that psim prints, and the
// files of a run, a comparison, a search and a sweep with their pictures. It treats predicted
// and measured runs alike.
package reports

import (
	"context"
	"io"
	"slices"

	"psim/internal/files"
	"psim/reports/picture"
	"psim/results"
	"psim/results/compare"
	"psim/results/rankings"
	"psim/results/tracecsv"
)

// MostTracedTasks is the greatest number of tasks for which a run's trace.csv is written
// without being asked for. With more tasks the file has tens of megabytes, and few read it.
const MostTracedTasks = 100_000

// MostMemoryChanges is the greatest number of changes of memory for which memory.csv is
// written without being asked for.
const MostMemoryChanges = 1_000_000

// RunFiles lists the files that show a run with a trace. It leaves out pictures in which there
// would be nothing to draw, and without traced the files that would be very long. The result
// comes last, so that a folder with a result is complete.
func RunFiles(r results.Run, traced bool) []files.File {
	var list []files.File
	add := func(path string, render func(io.Writer) error) {
		list = append(list, files.File{Path: path, Render: render})
	}
	if r.Drawable() {
		add("timeline.png", func(w io.Writer) error { return picture.Timelines(w, picture.PNG, r) })
		add("timeline.svg", func(w io.Writer) error { return picture.Timelines(w, picture.SVG, r) })
	}
	if traced || r.Trace.Graph.Size() <= MostTracedTasks {
		add("trace.csv", func(w io.Writer) error { return tracecsv.WriteTraceCSV(w, r.Trace) })
	}
	if r.Drawable() && r.Result.UsesMemory() {
		figure := picture.NewMemoryFigure(r)
		add("memory.png", func(w io.Writer) error { return picture.Memory(w, picture.PNG, figure) })
	}
	if r.Result.UsesMemory() && (traced || r.Trace.MemoryChanges() <= MostMemoryChanges) {
		add("memory.csv", func(w io.Writer) error {
			return tracecsv.WriteMemoryCSV(w, tracecsv.EachCurve(r.Trace))
		})
	}
	add("result.json", r.Result.WriteJSON)
	return list
}

// SaveRun writes the files of a run into a folder, and further files, such as traces, elsewhere:
// all or none of them. If there are further files the folder has trace.csv, too. SaveRun returns
// the names of the files in the folder. Without a folder it writes only the further files.
func SaveRun(ctx context.Context, r results.Run, to files.Folder, elsewhere ...files.File) (names []string, err error) {
	var list []files.File
	if to.Path != "" {
		list = RunFiles(r, len(elsewhere) > 0)
	}
	return save(ctx, to, list, elsewhere...)
}

// SaveComparison writes a comparison of two runs into a folder, with its picture if there is
// something to draw. It returns the names of the files.
func SaveComparison(
	ctx context.Context, to files.Folder, c compare.Comparison, runs [2]results.Run,
) ([]string, error) {
	list := []files.File{{Path: "comparison.json", Render: c.WriteJSON}}
	if a, b := runs[0], runs[1]; a.Drawable() && b.Drawable() {
		draw := func(w io.Writer) error { return picture.CompareTimelines(w, picture.PNG, a, b) }
		list = append([]files.File{{Path: "compare.png", Render: draw}}, list...)
	}
	return save(ctx, to, list)
}

// SaveRanking writes a ranking into a folder: others, and plans.json. It returns the names of the
// files.
func SaveRanking(
	ctx context.Context, p rankings.Ranking, to files.Folder, others ...files.File,
) ([]string, error) {
	to.Partial = p.Partial
	return save(ctx, to, append(others, files.File{Path: "plans.json", Render: p.WriteJSON}))
}

// SaveSearch writes the plans of a search into a folder: others, points.csv, search.json and
// plans.json. It returns the names of the files.
func SaveSearch(
	ctx context.Context, s rankings.SavedPlans, to files.Folder, others ...files.File,
) ([]string, error) {
	last, err := s.Last()
	if err != nil {
		return nil, err
	}
	var varied []string
	for _, v := range s.Vary {
		varied = append(varied, v.Key)
	}
	plans := rankings.PlansFile{
		Plans: s.Plans, Squares: s.SettledSquares(), Space: s.Space, Gap: s.Gap, Partial: s.Partial,
	}
	list := append(slices.Clone(others),
		files.File{Path: "points.csv", Render: func(w io.Writer) error {
			return rankings.WritePlanPoints(w, s.Points, varied, last)
		}},
		files.File{Path: "search.json", Render: func(w io.Writer) error { return files.WriteJSON(w, s.PlanSearch) }},
		files.File{Path: "plans.json", Render: func(w io.Writer) error { return files.WriteJSON(w, plans) }})
	to.Partial = s.Partial
	return save(ctx, to, list)
}

// SaveSweep writes a sweep into a folder, with pictures: sweep.csv, sweep.jsonl and sweep.json.
// It returns the names of the files.
func SaveSweep(
	ctx context.Context, s rankings.Sweep, to files.Folder, pictures ...files.File,
) ([]string, error) {
	list := append(slices.Clone(pictures),
		files.File{Path: "sweep.csv", Render: func(w io.Writer) error { return WriteSweepCSV(w, s) }},
		files.File{Path: "sweep.jsonl", Render: s.WriteLines},
		files.File{Path: "sweep.json", Render: s.SweepInfo.WriteJSON})
	return save(ctx, to, list)
}

// save writes files into a folder, and others elsewhere. It returns the names of those in the
// folder.
func save(ctx context.Context, to files.Folder, list []files.File, elsewhere ...files.File) ([]string, error) {
	var names []string
	for _, f := range list {
		names = append(names, f.Path)
	}
	return names, to.Write(ctx, list, elsewhere...)
}
