package figures

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"psim/internal/files"
	"psim/results"
	"psim/results/rankings"
)

// loadPoints reads a sweep, by its folder or its sweep.jsonl, or a result.
func loadPoints(path string) ([]Item, error) {
	folder, file := filepath.Dir(path), path
	if files.IsFolder(path) {
		folder, file = path, filepath.Join(path, "sweep.jsonl")
	}
	return files.Steady(folder, func() ([]Item, error) { return loadPointsFrom(path, file) })
}

func loadPointsFrom(path, file string) ([]Item, error) {
	if !strings.HasSuffix(file, ".jsonl") || !files.Exists(file) && file != path {
		return loadResults(path)
	}
	list, err := files.Read(file, readPoints)
	if err == nil {
		err = files.Verify(filepath.Dir(file), filepath.Base(file))
	}
	for i := range list {
		list[i].Path = path
	}
	return list, err
}

// readPoints reads the results of a sweep.jsonl.
func readPoints(r io.Reader) (list []Item, err error) {
	points, err := rankings.ReadPoints(r)
	if err != nil {
		return nil, err
	}
	for _, p := range points {
		if p.Error == "" {
			list = append(list, Item{Label: strings.Join(p.Set, " "), Set: p.Set, Run: results.Run{Result: p.Result}})
		}
	}
	if len(list) == 0 {
		return nil, errors.New("holds no results of a sweep")
	}
	return list, nil
}

// A dimension is a setting that differs between results. Its values are sorted if all of
// them are numbers, and otherwise in the order in which they appear.
type dimension struct {
	key     string
	values  []string
	numbers []float64 // the values; nil unless all of them are numbers
}

// dimensions lists the settings that differ between results.
func dimensions(items []Item) []dimension {
	var list []dimension
	for i := range items {
		for _, s := range items[i].settings() {
			key, v, _ := strings.Cut(s, "=")
			at := slices.IndexFunc(list, func(d dimension) bool { return d.key == key })
			if at < 0 {
				at, list = len(list), append(list, dimension{key: key})
			}
			if !slices.Contains(list[at].values, v) {
				list[at].values = append(list[at].values, v)
			}
		}
	}
	list = slices.DeleteFunc(list, func(d dimension) bool { return len(d.values) < 2 })
	for i := range list {
		list[i].order()
	}
	return list
}

// order sorts values that are numbers.
func (d *dimension) order() {
	for _, v := range d.values {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil {
			d.numbers = nil
			return
		}
		d.numbers = append(d.numbers, x)
	}
	slices.Sort(d.numbers)
	slices.SortFunc(d.values, func(a, b string) int {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		return int(min(1, max(-1, x-y)*2))
	})
}

// settings lists the settings of a point of a sweep. For a result that is not of a sweep it
// lists those that the result itself records.
func (i Item) settings() []string {
	if i.Set != nil {
		return i.Set
	}
	r := i.Run.Result
	list := []string{"name=" + r.Name, "schedule.name=" + r.Schedule, "kind=" + r.Kind}
	for _, n := range []struct {
		key   string
		value int
	}{
		{"schedule.stages", r.Stages},
		{"schedule.virtual_stages", r.VirtualStages},
		{"schedule.microbatches", r.Microbatches},
		{"parallel.data", r.DataParallel},
		{"parallel.tensor", r.TensorParallel},
		{"parallel.context", max(1, r.ContextParallel)},
	} {
		list = append(list, n.key+"="+strconv.Itoa(n.value))
	}
	return list
}

// at returns an item's value of a dimension, or "".
func (i Item) at(d dimension) string {
	for _, s := range i.settings() {
		if v, ok := strings.CutPrefix(s, d.key+"="); ok {
			return v
		}
	}
	return ""
}
