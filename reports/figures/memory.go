package figures

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"gonum.org/v1/plot/plotter"

	"psim/internal/units"
	"psim/reports/chart"
	"psim/reports/picture"
	"psim/results"
)

// memory draws the memory of one result over time. Of several results it draws the memory
// of the fullest rank at its peak.
func memory(r Request) (Picture, error) {
	for i := range r.Items {
		if r.Items[i].foreign() {
			return nil, fmt.Errorf("%s: says nothing of memory; only results of psim do", r.Items[i].named())
		}
	}
	if len(r.Items) == 1 {
		return memoryOverTime(r)
	}
	s := stackChart{
		title: title("memory of the fullest rank", r.Items), notes: r.Notes,
		quantity: bytes("memory at the peak"), groups: grouped(r.Items),
		layers: memoryLayers(r.Items), total: func(*Item) (value, error) { return value{}, nil },
	}
	s.setLimits(r.Items)
	return s.picture()
}

func memoryOverTime(r Request) (Picture, error) {
	i := r.Items[0]
	figure, err := i.memoryFigure()
	figure.Notes = r.Notes
	if err == nil && !figure.Drawable() {
		err = Nothing{fmt.Errorf("%s: the run takes no time or no memory, so there is nothing to draw", i.named())}
	}
	return func(w io.Writer, format string) error { return picture.Memory(w, format, figure) }, err
}

// memoryFigure reads the curves of a saved result, or makes them from a trace.
func (i Item) memoryFigure() (picture.MemoryFigure, error) {
	switch {
	case i.Path != "":
		return picture.LoadMemory(i.Path, i.Run.Trace)
	case i.Run.Trace == nil:
		return picture.MemoryFigure{}, fmt.Errorf("%s: has no trace, so its memory over time is not known", i.Label)
	}
	return picture.NewMemoryFigure(i.Run), nil
}

// memoryLayers lists the categories of memory. If some result does not know them, it lists
// the memory that stays allocated throughout the step and the rest.
func memoryLayers(items []Item) []layer {
	if slices.ContainsFunc(items, func(i Item) bool { return fullest(&i).Memory == nil }) {
		return []layer{
			{"persistent", chart.Series(0), func(i *Item) float64 {
				return float64(fullest(i).PersistentMemory)
			}},
			{"activations and buffers", chart.Series(1), func(i *Item) float64 {
				return float64(fullest(i).PeakMemory - fullest(i).PersistentMemory)
			}},
		}
	}
	var list []layer
	for k, c := range []struct {
		name string
		of   func(results.MemoryBytes) int64
	}{
		{"parameters", func(m results.MemoryBytes) int64 { return m.Parameters }},
		{"gradients", func(m results.MemoryBytes) int64 { return m.Gradients }},
		{"optimizer", func(m results.MemoryBytes) int64 { return m.Optimizer }},
		{"activations", func(m results.MemoryBytes) int64 { return m.Activations }},
		{"buffers", func(m results.MemoryBytes) int64 { return m.Buffers }},
		{"context", func(m results.MemoryBytes) int64 { return m.Context }},
	} {
		category := func(i *Item) float64 { return float64(c.of(*fullest(i).Memory)) }
		list = append(list, layer{c.name, chart.Series(k), category})
	}
	return list
}

// fullest returns the rank of a result with the highest peak.
func fullest(i *Item) results.RankResult {
	return slices.MaxFunc(i.Run.Result.Ranks, func(a, b results.RankResult) int {
		return cmp.Compare(a.PeakMemory, b.PeakMemory)
	})
}

// setLimits adds the capacities of the devices as lines. It leaves out those so high that
// the stacks would be too small to see.
func (s *stackChart) setLimits(items []Item) {
	var peak int64
	for i := range items {
		peak = max(peak, fullest(&items[i]).PeakMemory)
	}
	for i := range items {
		c := fullest(&items[i]).MemoryCapacity
		if c > 0 && c/4 <= peak && !slices.Contains(s.limits, float64(c)) {
			s.limits = append(s.limits, float64(c))
		}
	}
	if slices.Sort(s.limits); len(s.limits) > 0 {
		s.limit = "capacity " + units.FormatBytes(int64(s.limits[0]))
	}
}

func point(x, y float64) plotter.XY { return plotter.XY{X: x, Y: y} }
