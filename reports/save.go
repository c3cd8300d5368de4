// Package reports turns results into what people read: the tables that psim prints, and the
// files of a run, a comparison, a search and a sweep with their pictures. It does not care
// whether a run was predicted or measured.
package reports

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"psim/internal/files"
	"psim/internal/jsonfile"
	"psim/reports/picture"
	"psim/results"
	"psim/results/compare"
	"psim/results/rankings"
	"psim/results/tracecsv"
)

// A File is one to be written: its path, and Render, which writes its content.
type File = files.File

// A Folder is where a command's files are written, all or none.
type Folder = files.Folder

// MostTraced is the number of tasks up to which a run's trace.csv is written without
// being asked for: more of them make a file of tens of megabytes that few read.
const MostTraced = 100_000

// MostCurved is the number of changes of memory up to which memory.csv is.
const MostCurved = 1_000_000

// Files lists the files that show a run, which must have a trace: pictures only
// where there is something to draw, trace.csv of more than MostTraced tasks only where
// it is asked for, the result last, so that a folder with a result is complete.
func FilesOf(r results.Run, traced bool) []File {
	var list []File
	if r.Drawable() {
		draw := func(format string) func(io.Writer) error {
			return func(w io.Writer) error { return picture.Timelines(w, format, r) }
		}
		list = append(list, File{Path: "timeline.png", Render: draw(picture.PNG)}, File{Path: "timeline.svg", Render: draw(picture.SVG)})
	}
	if traced || len(r.Trace.Graph.Tasks) <= MostTraced {
		list = append(list, File{Path: "trace.csv", Render: func(w io.Writer) error { return tracecsv.WriteTraceCSV(w, r.Trace) }})
	}
	if r.Drawable() && r.Result.UsesMemory() {
		figure := picture.NewMemoryFigure(r)
		list = append(list, File{Path: "memory.png", Render: func(w io.Writer) error { return picture.Memory(w, picture.PNG, figure) }})
	}
	if r.Result.UsesMemory() && (traced || len(r.Trace.Memory) <= MostCurved) {
		list = append(list, File{Path: "memory.csv", Render: func(w io.Writer) error { return tracecsv.WriteMemoryCSV(w, tracecsv.MemoryCurves(r.Trace)) }})
	}
	return append(list, File{Path: "result.json", Render: r.Result.WriteJSON})
}

// SaveRun writes the files of a run into a folder, and with them further ones
// elsewhere, all or none: traces, so that the folder has its trace.csv too. It returns
// the names of those in the folder. Without a folder it writes only those elsewhere.
func SaveRun(ctx context.Context, r results.Run, folder string, elsewhere ...files.File) (names []string, err error) {
	var list []files.File
	if folder != "" {
		list = FilesOf(r, len(elsewhere) > 0)
	}
	return save(ctx, RunFolder(folder, r.Result.Kind), list, elsewhere...)
}

// Save writes a comparison, and its picture if there is something to draw, into a
// folder, and returns the names of the files.
func SaveComparison(ctx context.Context, c compare.Comparison, folder string, a, b results.Run) (names []string, err error) {
	list := []files.File{{Path: "comparison.json", Render: c.WriteJSON}}
	if a.Drawable() && b.Drawable() {
		draw := func(w io.Writer) error { return picture.CompareTimelines(w, picture.PNG, a, b) }
		list = append([]files.File{{Path: "compare.png", Render: draw}}, list...)
	}
	return save(ctx, ComparisonFolder(folder), list)
}

// Save writes plans, and their picture of so much memory per rank if there is
// something to draw, into a folder, and returns the names of the files.
func SaveRanking(ctx context.Context, p rankings.Ranking, folder, title string, capacity int64) (names []string, err error) {
	list := []files.File{{Path: "plans.json", Render: p.WriteJSON}}
	var drawn bytes.Buffer
	if picture.Pareto(&drawn, picture.PNG, picture.ParetoFigure{Title: title, Plans: p.Plans, Capacity: capacity}) == nil {
		draw := func(w io.Writer) error { _, err := w.Write(drawn.Bytes()); return err }
		list = append([]files.File{{Path: "pareto.png", Render: draw}}, list...)
	}
	to := PlansFolder(folder)
	to.Partial = p.Partial
	return save(ctx, to, list)
}

func save(ctx context.Context, folder files.Folder, list []files.File, elsewhere ...files.File) (names []string, err error) {
	for _, f := range list {
		names = append(names, f.Path)
	}
	return names, folder.Write(ctx, list, elsewhere...)
}

// RunFiles names the files that psim run and psim exec write into a folder: of
// one run, and beside it of a measured one.
func RunFiles() (run, measured []string) {
	return []string{"timeline.png", "timeline.svg", "trace.csv", "memory.png", "memory.csv", "result.json"},
		[]string{"compare.png", "comparison.json", "modes.png", "predicted/trace.csv", "predicted/result.json"}
}

// RunFolder returns a folder for the files of predictions or of measurements, which
// do not replace each other. Several runs that were measured together have a folder
// each in it, by their schedules.
func RunFolder(path, kind string, schedules ...string) files.Folder {
	run, measured := RunFiles()
	all := append(slices.Clone(run), measured...)
	f := files.Folder{Path: path, Owner: "run", Guarded: run, Earlier: earlierRun}
	if kind == results.Measured {
		f.Owner, f.Guarded = "exec", all
		f.Keep = func(name string) bool { return strings.Contains(name, "/") && !strings.HasPrefix(name, "predicted/") }
	}
	for _, schedule := range schedules {
		f.Guarded = append(f.Guarded, inFolder(schedule, all)...)
	}
	return f
}

// inFolder puts names into a folder.
func inFolder(folder string, names []string) (list []string) {
	for _, name := range names {
		list = append(list, folder+"/"+name)
	}
	return list
}

// earlierRun lists the files of a result of which no manifest does.
func earlierRun(folder string) (owner string, names []string) {
	result, err := files.Read(filepath.Join(folder, "result.json"), results.ReadResult)
	if err != nil {
		return "", nil
	}
	run, measured := RunFiles()
	if result.Kind != results.Measured {
		return "run", run
	}
	all := append(run, measured...)
	names = slices.Clone(all)
	for _, part := range result.Runs {
		base := filepath.Base(part.Schedule)
		inner, err := files.Read(filepath.Join(folder, base, "result.json"), results.ReadResult)
		if err == nil && inner.Schedule == part.Schedule {
			names = append(names, inFolder(base, all)...)
		}
	}
	return "exec", names
}

// PlansFolder returns a folder for the files of a search.
func PlansFolder(path string) files.Folder {
	return ownFolder(path, "search", []string{"pareto.png", "map.png", "points.csv", "search.json", "plans.json"}, rankings.ReadPlans)
}

// ComparisonFolder returns a folder for the files of a comparison.
func ComparisonFolder(path string) files.Folder {
	return ownFolder(path, "compare", []string{"compare.png", "comparison.json"}, readComparison)
}

// ownFolder guards files of some names, the last of which tells
// whether psim has written them.
func ownFolder[T any](path, owner string, names []string, read func(io.Reader) (T, error)) files.Folder {
	return files.Folder{Path: path, Owner: owner, Guarded: names, Earlier: func(folder string) (string, []string) {
		if _, err := files.Read(filepath.Join(folder, names[len(names)-1]), read); err != nil {
			return "", nil
		}
		return owner, names
	}}
}

// readComparison reads enough of a comparison.json to know that it is one.
func readComparison(r io.Reader) (compare.Comparison, error) {
	var c struct {
		ByKind map[string]compare.KindComparison `json:"by_kind"`
	}
	err := jsonfile.Read(r, jsonfile.MostBytes, &c)
	if err == nil && c.ByKind == nil {
		err = errors.New("by_kind is missing")
	}
	return compare.Comparison{}, err
}
