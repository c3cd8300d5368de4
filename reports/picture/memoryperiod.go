package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"psim/internal/units"
	"psim/reports/chart"
	"psim/results/tracecsv"
)

// maxChanges limits the changes of a curve that is drawn as a line.
const maxChanges = 200

// drawEnvelopes draws the envelopes of the curves, and below them a short part of the step in which
// single changes can be seen.
func (p *memoryPlot) drawEnvelopes() *chart.Figure {
	distinct := distinctCurves(p.Curves)
	p.Curves = nil // equal envelopes over each other would look darker
	for _, l := range distinct {
		p.Curves = append(p.Curves, l.MemoryCurve)
	}
	least, levels := p.busiest()
	part := enlarged(levels, p.end)
	f, below := p.figure(150), p.enlarge(part)
	f.Add(chart.Strip{From: float64(part.from), To: float64(part.to)})
	grain := part.grain(f.DataWidth() / vg.Length(p.end))
	p.add(f, func(c tracecsv.MemoryCurve, style draw.LineStyle, _ vg.Length) plot.Plotter {
		line := memorySteps(c, style, grain)
		return chart.Band{XYs: line.XYs, Style: style, Grain: grain, Least: float64(least)}
	})
	p.explain(f)
	f.Explain(part.text(), chart.Swatch{Color: chart.RGB(chart.Pale)})
	f.Below(below)
	return f
}

// enlarge draws a part of the step, between its lowest level and its highest.
func (p *memoryPlot) enlarge(part memoryPart) *chart.Figure {
	const flat = 0.9 // the least of a range that does not begin at zero, as a share of its end
	low, high := int64(math.MaxInt64), int64(1)
	for _, c := range p.Curves {
		c = part.of(c)
		high = max(high, c.Peak())
		for _, l := range c.Levels() {
			low = min(low, l.Bytes)
		}
	}
	f := chart.New("", 130)
	chart.Time(&f.X, "time after "+units.FormatDuration(part.from), part.to-part.from, 10)
	from := min(float64(low), flat*float64(high))
	chart.Bytes(&f.Y, chart.Scale{Label: "memory in use", Low: from, High: float64(high), Intervals: 5})
	p.add(f, func(c tracecsv.MemoryCurve, style draw.LineStyle, grain vg.Length) plot.Plotter {
		return memorySteps(part.of(c), style, grain)
	})
	space := 0.08 * (float64(high) - from)
	f.Y.Min, f.Y.Max = max(0, from-space), float64(high)+space // lines outside are cut off
	return f
}

// A memoryPart is a part of the step, which is drawn enlarged.
type memoryPart struct {
	from, to time.Duration
	period   bool // the levels repeat from period to period
}

// busiest returns the levels of the curve that has the most, and how long a level holds at least.
func (p *memoryPlot) busiest() (least time.Duration, levels []tracecsv.MemoryPoint) {
	const brief = 1000 // times shorter than the mean
	least = p.end
	for _, c := range p.Curves {
		least = min(least, p.end/time.Duration(brief*max(1, len(c.Points))))
	}
	least = max(1, least)
	for _, c := range p.Curves {
		if held := heldLevels(c, least); len(held) > len(levels) {
			levels = held
		}
	}
	return least, levels
}

// enlarged finds one period of levels in the middle of the step. If they do not repeat there, it takes
// the time of a few changes.
func enlarged(levels []tracecsv.MemoryPoint, end time.Duration) memoryPart {
	const few = 40
	middle, _ := slices.BinarySearchFunc(levels, end/2, func(p tracecsv.MemoryPoint, at time.Duration) int {
		return cmp.Compare(p.At, at)
	})
	for share := 6; share <= 60; share *= 3 {
		first, last := max(0, middle-len(levels)/share), min(len(levels), middle+len(levels)/share)
		period := periodOf(levels[first:last])
		if period < 2 || 3*period > last-first {
			continue
		}
		first = (first + last - period) / 2
		lowest := first
		for i := first; i < first+period; i++ {
			if levels[i].Bytes < levels[lowest].Bytes {
				lowest = i
			}
		}
		return memoryPart{levels[lowest].At, levels[lowest+period].At, true}
	}
	span := max(1, end/time.Duration(max(10, len(levels)/few)))
	from := (end - span) / 2
	return memoryPart{from: from, to: from + span}
}

// periodOf returns after how many levels they repeat, by the failure function of Knuth, Morris and
// Pratt. It is the number of levels if they do not.
func periodOf(levels []tracecsv.MemoryPoint) int {
	border := make([]int, len(levels)+1) // the longest proper prefix that is a suffix, of every prefix
	for i, k := 1, 0; i < len(levels); i++ {
		for k > 0 && levels[i].Bytes != levels[k].Bytes {
			k = border[k]
		}
		if levels[i].Bytes == levels[k].Bytes {
			k++
		}
		border[i+1] = k
	}
	return len(levels) - border[len(levels)]
}

// heldLevels lists the levels that hold for some time, rather than between the end of one task and the
// start of the next, each different from the one before.
func heldLevels(c tracecsv.MemoryCurve, least time.Duration) (list []tracecsv.MemoryPoint) {
	all := c.Levels()
	for i, p := range all {
		held := i+1 == len(all) || all[i+1].At-p.At >= least
		if held && (len(list) == 0 || list[len(list)-1].Bytes != p.Bytes) {
			list = append(list, p)
		}
	}
	return list
}

// grain returns how wide the columns of envelopes are: a period, so that each column has every level
// of it, if that is neither too fine nor too coarse.
func (w memoryPart) grain(nanosecond vg.Length) vg.Length {
	const fine, usual, coarse = 1.5, 3, 6
	if !w.period {
		return usual
	}
	return min(max(chart.Snap(vg.Length(w.to-w.from)*nanosecond)+chart.Pixel, fine), coarse)
}

// of returns the part of a curve, in time from its beginning.
func (w memoryPart) of(c tracecsv.MemoryCurve) tracecsv.MemoryCurve {
	after := func(at time.Duration) int {
		i, _ := slices.BinarySearchFunc(c.Points, at, func(p tracecsv.MemoryPoint, at time.Duration) int {
			if p.At <= at {
				return -1
			}
			return 1
		})
		return i
	}
	part, first := tracecsv.MemoryCurve{Rank: c.Rank, Persistent: c.Persistent}, after(w.from)
	if first > 0 {
		part.Persistent = c.Points[first-1].Bytes
	}
	for _, p := range c.Points[first:after(w.to)] {
		part.Points = append(part.Points, tracecsv.MemoryPoint{At: p.At - w.from, Bytes: p.Bytes})
	}
	return part
}

// text says for the legend what is enlarged.
func (w memoryPart) text() string {
	kind := "a part"
	if w.period {
		kind = "one steady period"
	}
	return fmt.Sprintf("enlarged below: %s of %s", kind, units.FormatDuration(w.to-w.from))
}
