package reports

import (
	"fmt"
	"slices"
	"strings"

	"psim/internal/files"
	"psim/results"
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
	f := files.Folder{Path: path, Owner: "run", Guarded: run}
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

// PlansFolder returns a folder for the files of a search that keeps a number of plans.
func PlansFolder(path string, plans int) files.Folder {
	names := []string{"pareto.png", "map.png", "points.csv", "search.json", "plans.json"}
	for n := range plans {
		names = append(names, PlanFile(n+1))
	}
	return files.Folder{Path: path, Owner: "search", Guarded: names, Writes: append(names, PlanFile(1))}
}

// PlanFile names the configuration of a plan, which is counted from 1.
func PlanFile(n int) string { return fmt.Sprintf("plan-%d.toml", n) }

// SweepFolder returns a folder for the files of a sweep.
func SweepFolder(path string) files.Folder {
	names := []string{"sweep.png", "sweep.csv", "sweep.jsonl", "sweep.json"}
	return files.Folder{Path: path, Owner: "sweep", Guarded: names}
}

// ComparisonFolder returns a folder for the files of a comparison.
func ComparisonFolder(path string) files.Folder {
	return files.Folder{Path: path, Owner: "compare", Guarded: []string{"compare.png", "comparison.json"}}
}
