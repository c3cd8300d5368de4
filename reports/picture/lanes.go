package picture

import (
	"time"

	"gonum.org/v1/plot/vg"

	"psim/reports/chart"
	"psim/schedules/graph"
)

// A block is a rectangle of one colour to be drawn in a lane: bottom and top
// are shares of the lane's height.
type block struct {
	x0, x1      vg.Length
	bottom, top float64
	bar         bar // task is None where the block stands for several
}

// single turns the bars of a lane into a block each, rounded to pixels. What
// starts before an earlier bar has ended takes the lower half of the lane.
// What is narrower than a pixel is drawn a pixel wide where there is room and
// left out where there is none.
func single(bars []bar, x func(time.Duration) vg.Length) []block {
	var blocks []block
	var busy time.Duration // end of the full-height bars so far
	painted := [2]vg.Length{-1, -1}
	for _, b := range bars {
		level, top := 0, 1.0
		if b.Start < busy {
			level, top = 1, 0.5
		} else {
			busy = b.End
		}
		x0, x1 := max(chart.Snap(x(b.Start)), painted[level]), chart.Snap(x(b.End))
		if x1 <= x0 {
			if chart.Snap(x(b.Start)) < painted[level] {
				continue
			}
			x1 = x0 + chart.Pixel
		}
		painted[level] = x1
		blocks = append(blocks, block{x0: x0, x1: x1, top: top, bar: b})
	}
	return blocks
}

// shares turns the bars of a lane into columns of a given width, each stacked
// from the shares of its time that the kinds of task took. Shares smaller than
// the least one are drawn as that.
func shares(bars []bar, from, to time.Duration, x func(time.Duration) vg.Length, column vg.Length, least float64) []block {
	left := chart.Snap(x(from))
	columns := int((x(to)-left)/column) + 1
	sums := make([]map[graph.Kind]float64, columns)
	for _, b := range bars {
		addShare(sums, b.kind, float64((x(b.Start)-left)/column), float64((x(b.End)-left)/column))
	}
	var blocks []block
	for c, sum := range sums {
		x0 := left + vg.Length(c)*column
		blocks = append(blocks, stack(sum, x0, min(x0+column, chart.Snap(x(to))), least)...)
	}
	return blocks
}

// addShare adds a task, from and to in columns, to the shares of those that it
// covers.
func addShare[K comparable](shares []map[K]float64, key K, from, to float64) {
	for c := int(from); c < len(shares) && float64(c) < to; c++ {
		if shares[c] == nil {
			shares[c] = map[K]float64{}
		}
		shares[c][key] += min(to, float64(c+1)) - max(from, float64(c))
	}
}

// stack piles up one column of shares, in order of kind from the bottom. What is too
// small to be more than a rounding error is left out.
func stack(sum map[graph.Kind]float64, x0, x1 vg.Length, least float64) []block {
	const rounding = 1e-6
	var blocks []block
	level := 0.0
	for k := graph.Forward; k <= graph.AllToAll; k++ {
		if sum[k] > rounding && x1 > x0 {
			top := level + max(least, sum[k])
			blocks = append(blocks, block{x0, x1, level, top, bar{kind: k, task: graph.None}})
			level = top
		}
	}
	for i := range blocks { // raised shares may not fit
		blocks[i].bottom /= max(1, level)
		blocks[i].top /= max(1, level)
	}
	return blocks
}
