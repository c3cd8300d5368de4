package reports

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"psim/internal/files"
	"psim/internal/jsonfile"
	"psim/results"
	"psim/results/compare"
	"psim/results/rankings"
)

// RunFileNames names the files that psim run and psim exec write into a folder: those of a run,
// and the further ones of a measured run.
func RunFileNames() (run, measured []string) {
	return []string{"timeline.png", "timeline.svg", "trace.csv", "memory.png", "memory.csv", "result.json"},
		[]string{"compare.png", "comparison.json", "modes.png", "predicted/trace.csv", "predicted/result.json"}
}

// RunFolder returns a folder for the files of a prediction or of a measurement. These do not
// replace each other. Runs that were measured together have a folder each in it, which is named
// by their schedule.
func RunFolder(path, kind string, schedules ...string) files.Folder {
	run, measured := RunFileNames()
	all := append(slices.Clone(run), measured...)
	f := files.Folder{Path: path, Owner: "run", Guarded: run, Earlier: earlierRun}
	if kind == results.Measured {
		f.Owner, f.Guarded = "exec", all
		f.Keep = func(name string) bool {
			return strings.Contains(name, "/") && !strings.HasPrefix(name, "predicted/")
		}
	}
	for _, schedule := range schedules {
		f.Guarded = append(f.Guarded, inFolder(schedule, all)...)
	}
	return f
}

// inFolder puts the name of a folder before names.
func inFolder(folder string, names []string) (list []string) {
	for _, name := range names {
		list = append(list, folder+"/"+name)
	}
	return list
}

// earlierRun recognizes a run by its result.json in a folder without a manifest. It returns the
// command that wrote it, and the names of its files.
func earlierRun(folder string) (owner string, names []string) {
	result, err := files.Read(filepath.Join(folder, "result.json"), results.ReadResult)
	if err != nil {
		return "", nil
	}
	run, measured := RunFileNames()
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

// PlansFolder returns a folder for the files of a search that keeps a number of plans.
func PlansFolder(path string, plans int) files.Folder {
	names := []string{"pareto.png", "map.png", "points.csv", "search.json", "plans.json"}
	f := ownFolder(path, "search", names, rankings.ReadPlans)
	f.Guarded = slices.Clone(names)
	for n := range plans {
		f.Guarded = append(f.Guarded, PlanFile(n+1))
	}
	return f
}

// PlanFile names the configuration of a plan, which is counted from 1.
func PlanFile(n int) string { return fmt.Sprintf("plan-%d.toml", n) }

// SweepFolder returns a folder for the files of a sweep.
func SweepFolder(path string) files.Folder {
	names := []string{"sweep.png", "sweep.csv", "sweep.jsonl", "sweep.json"}
	return ownFolder(path, "sweep", names, rankings.ReadSweepInfo)
}

// ComparisonFolder returns a folder for the files of a comparison.
func ComparisonFolder(path string) files.Folder {
	return ownFolder(path, "compare", []string{"compare.png", "comparison.json"}, readComparison)
}

// ownFolder returns a folder for files of a command. If the folder has no manifest, psim has
// written it if the last of the files can be read.
func ownFolder[T any](path, owner string, names []string, read func(io.Reader) (T, error)) files.Folder {
	return files.Folder{Path: path, Owner: owner, Guarded: names, Earlier: func(folder string) (string, []string) {
		if _, err := files.Read(filepath.Join(folder, names[len(names)-1]), read); err != nil {
			return "", nil
		}
		return owner, names
	}}
}

// readComparison reads a comparison.json only to see whether it is one.
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
