package figures

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"psim/results"
)

// loadRun reads a result with its trace.
func loadRun(path string) ([]Item, error) {
	run, err := results.Load(path)
	return []Item{{Label: label(path), Path: path, Run: run}}, err
}

// loadResults reads a result without its trace. A result that holds the results of several
// modes gives one item for each.
func loadResults(path string) ([]Item, error) {
	result, err := results.LoadResult(path)
	if err != nil {
		return nil, err
	}
	if len(result.Runs) == 0 {
		return []Item{{Label: label(path), Path: path, Run: results.Run{Result: result}}}, nil
	}
	var list []Item
	for _, r := range result.Runs {
		list = append(list, Item{Label: label(path) + ": " + r.Schedule, Path: path, Run: results.Run{Result: r}})
	}
	return list, nil
}

// Doubts lists the warnings about results of other programs, each with the paths of the
// results that it concerns.
func Doubts(items []Item) []string {
	var texts []string
	paths := map[string][]string{}
	for _, i := range items {
		if !i.foreign() {
			continue
		}
		for _, w := range i.Run.Result.Warnings {
			if paths[w] == nil {
				texts = append(texts, w)
			}
			if !slices.Contains(paths[w], i.Path) {
				paths[w] = append(paths[w], i.Path)
			}
		}
	}
	for n, w := range texts {
		list := paths[w]
		if others := len(list) - 2; others > 1 {
			list = append(list[:2:2], fmt.Sprintf("%d others", others))
		}
		texts[n] = strings.Join(list, ", ") + ": " + w
	}
	return texts
}

// label names a result by its folder.
func label(path string) string {
	path = filepath.Clean(path)
	for filepath.Base(path) == "result.json" || filepath.Base(path) == "predicted" {
		path = filepath.Dir(path)
	}
	return filepath.Base(path)
}

// devices counts the devices that an item's step runs on.
func (i Item) devices() int {
	if n := i.Run.Result.Devices; n > 0 {
		return n
	}
	return len(i.Run.Result.Ranks) * max(1, i.Run.Result.TensorParallel) // results of an earlier format lack Devices
}
