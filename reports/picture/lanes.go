package picture

import (
	"time"

	"gonum.org/v1/plot/vg"

	"psim/reports/chart"
	"psim/schedules/graph"
)

// A block is a rectangle of one colour in a lane. Bottom and top are fractions of the lane's
// height.
type block struct {
	x0, x1      vg.Length
	bottom, top float64
	bar         bar // its task is None if the block stands for several
}

// blocksOf turns every bar of a lane into a block, rounded to pixels. A bar that starts
// before an earlier one has ended takes the lower half of the lane. A bar that is narrower
// than a pixel is drawn a pixel wide if there is room, and left out otherwise.
func blocksOf(bars []bar, x func(time.Duration) vg.Length) []block {
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

// shareColumns divide a dense lane into columns of a width, from one moment to another.
// Shares of a column that are smaller than the least one are drawn as large as that.
type shareColumns struct {
	from, to time.Duration
	x        func(time.Duration) vg.Length
	width    vg.Length
	least    float64
}

// blocks turns the bars of a lane into columns, each a stack of the shares of its time that
// the kinds of task took.
func (s shareColumns) blocks(bars []bar) []block {
	left := chart.Snap(s.x(s.from))
	column := func(at time.Duration) float64 { return float64((s.x(at) - left) / s.width) }
	sums := make([]shares, int(column(s.to))+1)
	for _, b := range bars {
		addShare(sums, int(b.kind), column(b.Start), column(b.End))
	}
	var blocks []block
	for c, sum := range sums {
		x0 := left + vg.Length(c)*s.width
		blocks = append(blocks, stack(sum, x0, min(x0+s.width, chart.Snap(s.x(s.to))), s.least)...)
	}
	return blocks
}

// shares are those of a column's time that kinds of task take, or letters.
type shares [graph.Kinds]float64

// addShare adds a task to the shares of the columns that it covers. From and to are in
// columns.
func addShare(columns []shares, key int, from, to float64) {
	for c := int(from); c < len(columns) && float64(c) < to; c++ {
		columns[c][key] += min(to, float64(c+1)) - max(from, float64(c))
	}
}

// stack stacks the shares of one column, in order of kind from the bottom. It leaves out
// shares that are so small that they may be rounding errors.
func stack(sum shares, x0, x1 vg.Length, least float64) []block {
	const rounding = 1e-6
	var blocks []block
	level := 0.0
	for k := graph.Forward; k < graph.ReceiveForward; k++ {
		if sum[k] > rounding && x1 > x0 {
			top := level + max(least, sum[k])
			blocks = append(blocks, block{x0, x1, level, top, bar{kind: k, task: graph.None}})
			level = top
		}
	}
	for i := range blocks { // the shares that were raised to the least one may make the stack too high
		blocks[i].bottom /= max(1, level)
		blocks[i].top /= max(1, level)
	}
	return blocks
}
