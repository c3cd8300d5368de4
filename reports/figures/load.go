package figures

import (
	"path/filepath"

	"psim/reports"
)

// loadRun reads a result with its trace.
func loadRun(path string) ([]Item, error) {
	run, err := reports.Load(path)
	return []Item{{Label: label(path), Path: path, Run: run}}, err
}

// loadResults reads a result without its trace. One of several modes stands for all
// of them.
func loadResults(path string) ([]Item, error) {
	result, err := reports.LoadResult(path)
	if err != nil {
		return nil, err
	}
	if len(result.Runs) == 0 {
		return []Item{{Label: label(path), Path: path, Run: reports.Run{Result: result}}}, nil
	}
	var list []Item
	for _, r := range result.Runs {
		list = append(list, Item{Label: label(path) + ": " + r.Schedule, Path: path, Run: reports.Run{Result: r}})
	}
	return list, nil
}

// label names a result by its folder.
func label(path string) string {
	path = filepath.Clean(path)
	for filepath.Base(path) == "result.json" || filepath.Base(path) == "predicted" {
		path = filepath.Dir(path)
	}
	return filepath.Base(path)
}

// devices counts those that an item's step runs on.
func (i Item) devices() int {
	if n := i.Run.Result.Devices; n > 0 {
		return n
	}
	return len(i.Run.Result.Ranks) * max(1, i.Run.Result.TensorParallel) // of an earlier format
}
