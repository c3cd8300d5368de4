package figures

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
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

// A planMap shows plans over two of their dimensions.
type planMap struct {
	title      string
	points     []rankings.PlanPoint
	known      []rankings.PlanSquare
	across, up string
}

// PlanMap draws the shortest step of the plans that fit in memory over two dimensions, as
// rankings.PlanDimensions names them; without dimensions it takes the first two in which plans
// differ. Of a square in which no plan of the search was simulated and fits, it draws the best known
// plan, or else says why there is none.
func PlanMap(title string, points []rankings.PlanPoint, known []rankings.PlanSquare, dimensions []string) (
	Picture, error,
) {
	m := planMap{title: title, points: points, known: known}
	if err := CheckDimensions(dimensions); err != nil {
		return nil, err
	}
	if len(dimensions) == 0 {
		dimensions = rankings.MapDimensions(func(yield func(rankings.PlanShape) bool) {
			for i := range points {
				if !yield(points[i].Plan) {
					return
				}
			}
		})
	}
	if len(dimensions) < 2 {
		return nil, Nothing{errors.New("plans differ in fewer than two dimensions, so there is no map to draw")}
	}
	m.across, m.up = dimensions[0], dimensions[1]
	return func(w io.Writer, format string) error { return m.figure().Write(w, format) }, nil
}

// CheckDimensions returns an error unless a map can be drawn over the dimensions: there
// must be two different ones, or none.
func CheckDimensions(dimensions []string) error {
	all := rankings.PlanDimensions()
	for _, name := range dimensions {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s: unknown dimension %q; use two of %s%s",
				strings.Join(dimensions, ","), name, strings.Join(all, ", "), nearest.Suggest(name, all))
		}
	}
	if n := len(dimensions); n != 0 && n != 2 || n == 2 && dimensions[0] == dimensions[1] {
		return fmt.Errorf("%s: a map needs two dimensions, such as tensor,stages", strings.Join(dimensions, ","))
	}
	return nil
}

// values lists the values of a dimension: numbers by size, names alphabetically.
func (m planMap) values(dimension string) []string {
	seen := map[string]bool{}
	for i := range m.points {
		seen[m.points[i].Plan.Shown(dimension)] = true
	}
	list := slices.Collect(maps.Keys(seen))
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

// A planSquare summarizes the plans of a square.
type planSquare struct {
	best     time.Duration // the shortest step of the plans that fit; 0 if there are none
	beatable bool          // a plan that was not simulated may have a shorter step than best
	bound    time.Duration // the least bound of the plans that were discarded by it
	unfit    bool          // some plan does not fit in memory
	unknown  bool          // the search was interrupted before it reached some plan
}

// squares sorts the plans by column and row.
func (m planMap) squares(columns, rows []string) map[[2]int]planSquare {
	squares := map[[2]int]planSquare{}
	for i := range m.points {
		p := &m.points[i]
		at := [2]int{slices.Index(columns, p.Plan.Shown(m.across)), slices.Index(rows, p.Plan.Shown(m.up))}
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
	for _, known := range m.known {
		at := [2]int{slices.Index(columns, known.Across), slices.Index(rows, known.Up)}
		if s, drawn := squares[at]; drawn && s.best == 0 {
			s.best, s.beatable = units.Seconds(known.StepTime), known.StepTime > 0
			if !s.beatable {
				s = planSquare{unfit: true}
			}
			squares[at] = s
		}
	}
	for at, s := range squares {
		s.beatable = s.beatable || s.best > 0 && (s.unknown || s.bound > 0 && s.bound < s.best)
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
	var cells chart.Cells
	for at, s := range squares {
		look, text := s.look(low, high)
		cells = append(cells, chart.Cell{Column: at[0], Row: at[1], Look: look, Text: text})
	}
	sortCells(cells)
	f.Add(cells)
	m.explain(f, low, high)
	explainSquares(f, squares)
	return f
}

// axis names a dimension in words.
func axis(dimension string) string {
	words := map[string]string{
		"data":           "replicas",
		"tensor":         "devices of a tensor-parallel group",
		"stages":         "pipeline stages",
		"virtual_stages": "stages of a rank",
		"micro":          "samples of a microbatch",
		"zero":           "ZeRO stage",
		"recompute":      "recomputation",
		"sequence":       "sequence parallelism",
		"context":        "parts of a sequence",
		"expert":         "devices of an expert group",
		"expert_tensor":  "devices that divide an expert",
	}
	if text, ok := words[dimension]; ok {
		return text
	}
	return dimension
}

// The colours of squares without a step: in discarded ones nothing fits, or they were not reached; bounded
// ones have only a bound.
const discarded, bounded = 0xe4e4e4, 0xf6f6f6

// look returns the colour of a square, by the logarithm of its time, and its text.
func (s planSquare) look(low, high time.Duration) (chart.Paint, string) {
	grey := chart.Paint{Color: chart.RGB(discarded)}
	switch {
	case s.best > 0:
		level := 0.0
		if high > low {
			level = math.Log(float64(s.best)/float64(low)) / math.Log(float64(high)/float64(low))
		}
		text := units.FormatDuration(s.best)
		if s.beatable {
			text = "≈ " + text
		}
		return chart.Paint{Color: chart.Heat(level)}, text
	case s.bound > 0:
		return chart.Paint{Color: chart.RGB(bounded)}, "≥ " + units.FormatDuration(s.bound)
	case s.unfit:
		grey.Hatch = chart.Falling
	}
	return grey, ""
}

// explain names the colours of steps.
func (m planMap) explain(f *chart.Figure, low, high time.Duration) {
	if high > 0 {
		f.Explain("shortest step: "+units.FormatDuration(low), chart.Paint{Color: chart.Heat(0)})
	}
	if high > low {
		f.Explain(units.FormatDuration(high), chart.Paint{Color: chart.Heat(1)})
	}
}

// explainSquares says what squares and their signs mean.
func explainSquares(f *chart.Figure, squares map[[2]int]planSquare) {
	var hatched, beatable, bound bool
	for _, s := range squares {
		hatched = hatched || s.best == 0 && s.bound == 0 && s.unfit
		beatable, bound = beatable || s.beatable, bound || s.best == 0 && s.bound > 0
	}
	if hatched {
		f.Explain("does not fit in memory", chart.Paint{Color: chart.RGB(discarded), Hatch: chart.Falling})
	}
	f.Explain("each square: the shortest known step over all other dimensions; empty ones have no plan", nil)
	if beatable {
		f.Explain("≈ the shortest of the plans that were simulated: another may be faster", nil)
	}
	if bound {
		f.Explain("≥ a bound: no plan that fits was simulated, and none takes less", nil)
	}
}
