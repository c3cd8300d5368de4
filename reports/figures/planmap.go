package figures

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot/vg"

	"psim/internal/nearest"
	"psim/internal/units"
	"psim/reports/chart"
	"psim/results/rankings"
)

// A planMap is plans over two of their dimensions.
type planMap struct {
	title      string
	points     []rankings.PlanPoint
	across, up string
}

// PlanMap draws the shortest step that fits in memory over two dimensions of plans, as
// rankings.PlanDimensions names them; none are those in which it differs most. Squares
// without such a plan say why.
func PlanMap(title string, points []rankings.PlanPoint, dimensions []string) (Picture, error) {
	m := planMap{title: title, points: points}
	if err := CheckDimensions(dimensions); err != nil {
		return nil, err
	}
	if len(dimensions) == 0 {
		dimensions = m.telling()
	}
	if len(dimensions) < 2 {
		return nil, Nothing{errors.New("plans differ in fewer than two dimensions, so there is no map to draw")}
	}
	m.across, m.up = dimensions[0], dimensions[1]
	return func(w io.Writer, format string) error { return m.figure().Write(w, format) }, nil
}

// CheckDimensions reports whether a map can be drawn over dimensions: two, or none.
func CheckDimensions(dimensions []string) error {
	all := rankings.PlanDimensions()
	for _, name := range dimensions {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s: unknown dimension %q; use two of %s%s", strings.Join(dimensions, ","), name, strings.Join(all, ", "), nearest.Suggest(name, all))
		}
	}
	if n := len(dimensions); n != 0 && n != 2 || n == 2 && dimensions[0] == dimensions[1] {
		return fmt.Errorf("%s: a map needs two dimensions, such as tensor,stages", strings.Join(dimensions, ","))
	}
	return nil
}

// telling finds the two dimensions in which the best step differs most from value to
// value. Replicas and microbatches follow from others.
func (m planMap) telling() []string {
	var list []string
	for _, d := range rankings.PlanDimensions() {
		if d != "data" && d != "microbatches" && len(m.values(d)) > 1 {
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(m.spread(b), m.spread(a)) })
	return list[:min(2, len(list))]
}

// spread computes by how much more the best plans of the values of a dimension take than
// the best of all, on average, as far as that is known: at least, of what a bound has
// discarded; twice the time where nothing fits.
func (m planMap) spread(dimension string) float64 {
	best := map[string]time.Duration{}
	least := time.Duration(math.MaxInt64)
	for _, p := range m.points {
		value, took := planValue(p, dimension), time.Duration(0)
		switch {
		case p.Simulated && p.Fits:
			took = p.StepTime
			least = min(least, took)
		case !p.Simulated && (p.Pruned == "" || p.Pruned == rankings.Slower):
			took = p.Bound
		}
		if before := best[value]; took > 0 && (before == 0 || took < before) {
			best[value] = took
		} else {
			best[value] = before
		}
	}
	if len(best) < 2 {
		return 0
	}
	sum := 0.0
	for _, value := range m.values(dimension) {
		longer := 1.0
		if best[value] > 0 {
			longer = max(0, min(1, float64(best[value])/float64(least)-1))
		}
		sum += longer
	}
	return sum / float64(len(best))
}

// planValue returns that of a plan in a dimension. What divides an expert where nothing says so
// is what divides the rest of its layer, or with expert groups one device.
func planValue(p rankings.PlanPoint, dimension string) string {
	switch {
	case dimension != "expert_tensor" || p.Plan.ExpertTensor > 0:
		return p.Plan.Value(dimension)
	case p.Plan.Expert > 1:
		return "1"
	}
	return p.Plan.Value("tensor")
}

// values lists those of a dimension: numbers by size, names by themselves.
func (m planMap) values(dimension string) []string {
	var list []string
	for _, p := range m.points {
		if v := planValue(p, dimension); !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		x, errA := strconv.Atoi(a)
		y, errB := strconv.Atoi(b)
		if errA == nil && errB == nil {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(a, b)
	})
	return list
}

// A planSquare is the plans of a square.
type planSquare struct {
	best    time.Duration // of those that fit, 0 for none
	bound   time.Duration // the least of those that a bound has discarded
	unfit   bool
	unknown bool // a search that was interrupted did not reach it
}

// squares sorts the plans by column and row.
func (m planMap) squares(columns, rows []string) map[[2]int]planSquare {
	squares := map[[2]int]planSquare{}
	for _, p := range m.points {
		at := [2]int{slices.Index(columns, planValue(p, m.across)), slices.Index(rows, planValue(p, m.up))}
		s := squares[at]
		switch {
		case p.Simulated && p.Fits && (s.best == 0 || p.StepTime < s.best):
			s.best = p.StepTime
		case p.Simulated && p.Fits:
		case p.Simulated || p.Pruned != "" && p.Pruned != rankings.Slower:
			s.unfit = true
		case p.Pruned == "":
			s.unknown = true
		case s.bound == 0 || p.Bound < s.bound:
			s.bound = p.Bound
		}
		squares[at] = s
	}
	return squares
}

// figure draws the map.
func (m planMap) figure() *chart.Figure {
	columns, rows := m.values(m.across), m.values(m.up)
	height := max(16, min(34, 260/float64(len(rows))))
	f := chart.New(m.title, vg.Length(height*float64(len(rows))))
	f.Columns(axis(m.across), columns)
	f.Rows(axis(m.up), rows)
	squares := m.squares(columns, rows)
	low, high := time.Duration(math.MaxInt64), time.Duration(0)
	for _, s := range squares {
		if s.best > 0 {
			low, high = min(low, s.best), max(high, s.best)
		}
	}
	cells, used := chart.Cells{}, map[chart.Hatch]bool{}
	for at, s := range squares {
		look, text := s.look(low, high)
		used[look.Hatch] = true
		cells = append(cells, chart.Cell{Column: at[0], Row: at[1], Look: look, Text: text})
	}
	slices.SortFunc(cells, func(a, b chart.Cell) int { return slices.Compare([]int{a.Row, a.Column}, []int{b.Row, b.Column}) })
	f.Add(cells)
	m.explain(f, low, high, used)
	return f
}

// axis names a dimension in words, where its name in plans is not one of them.
func axis(dimension string) string {
	words := map[string]string{
		"data": "replicas", "tensor": "devices of a tensor-parallel group", "stages": "pipeline stages", "virtual_stages": "stages of a rank",
		"micro": "samples of a microbatch", "zero": "ZeRO stage", "recompute": "recomputation", "sequence": "sequence parallelism",
		"context": "parts of a sequence", "expert": "devices of an expert group", "expert_tensor": "devices that divide an expert",
	}
	if text, ok := words[dimension]; ok {
		return text
	}
	return dimension
}

// discarded colours squares without a plan that was simulated and fits.
const discarded = 0xe4e4e4

// look colours a square by the logarithm of its time.
func (s planSquare) look(low, high time.Duration) (chart.Paint, string) {
	grey := chart.Paint{Color: chart.RGB(discarded)}
	switch {
	case s.best > 0:
		level := 0.0
		if high > low {
			level = math.Log(float64(s.best)/float64(low)) / math.Log(float64(high)/float64(low))
		}
		return chart.Paint{Color: chart.Heat(level)}, units.FormatDuration(s.best)
	case s.bound > 0:
		grey.Hatch = chart.Rising
		return grey, "> " + units.FormatDuration(s.bound)
	case s.unfit:
		grey.Hatch = chart.Falling
	}
	return grey, ""
}

func (m planMap) explain(f *chart.Figure, low, high time.Duration, used map[chart.Hatch]bool) {
	if high > 0 {
		f.Explain("shortest step: "+units.FormatDuration(low), chart.Paint{Color: chart.Heat(0)})
	}
	if high > low {
		f.Explain(units.FormatDuration(high), chart.Paint{Color: chart.Heat(1)})
	}
	if used[chart.Rising] {
		f.Explain("discarded: takes longer, by a bound", chart.Paint{Color: chart.RGB(discarded), Hatch: chart.Rising})
	}
	if used[chart.Falling] {
		f.Explain("discarded: does not fit in memory", chart.Paint{Color: chart.RGB(discarded), Hatch: chart.Falling})
	}
	f.Explain("each square: the best over all other dimensions; empty ones have no plan", nil)
}
