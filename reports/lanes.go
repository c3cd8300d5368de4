package reports

import (
	"cmp"
	"slices"
	"time"

	"gonum.org/v1/plot/vg"

	"psim/schedules"
)

// The lanes of a rank in a timeline, from the top.
const (
	workLane = iota
	messageLane
	collectiveLane
	lanes
)

// laneOf is the lane that a kind of task is drawn in.
func laneOf(k schedules.Kind) int {
	switch {
	case k.Message():
		return messageLane
	case k.Collective():
		return collectiveLane
	}
	return workLane
}

// A bar is a task that took time.
type bar struct {
	schedules.Span
	kind schedules.Kind
	task int32
}

// panelBars is what a panel of a timeline shows: by rank and lane, the bars in
// order of start.
type panelBars struct {
	bars  [][lanes][]bar
	used  [lanes]bool
	kinds map[schedules.Kind]bool
}

// collectBars finds the tasks of the first ranks that took time.
func collectBars(t *schedules.Trace, ranks int) panelBars {
	p := panelBars{bars: make([][lanes][]bar, ranks), kinds: map[schedules.Kind]bool{}}
	for i := range t.Graph.Tasks {
		task, span := &t.Graph.Tasks[i], t.Spans[i]
		if int(task.Rank) >= ranks || span.End <= span.Start {
			continue
		}
		lane := laneOf(task.Kind)
		p.bars[task.Rank][lane] = append(p.bars[task.Rank][lane], bar{span, task.Kind, int32(i)})
		p.used[lane], p.kinds[task.Kind] = true, true
	}
	for r := range p.bars {
		for lane := range p.bars[r] {
			slices.SortFunc(p.bars[r][lane], func(a, b bar) int {
				return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.task, b.task))
			})
		}
	}
	if !p.used[messageLane] && !p.used[collectiveLane] {
		p.used[workLane] = true
	}
	return p
}

// medianDuration is the median time of the tasks of a lane, over all ranks.
func (p panelBars) medianDuration(lane int) time.Duration {
	var durations []time.Duration
	for r := range p.bars {
		for _, b := range p.bars[r][lane] {
			durations = append(durations, b.Duration())
		}
	}
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	return durations[len(durations)/2]
}

// A block is a rectangle of one colour to be drawn in a lane: bottom and top
// are shares of the lane's height.
type block struct {
	x0, x1      vg.Length
	bottom, top float64
	kind        schedules.Kind
	task        int32 // None where the block stands for several tasks
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
		x0, x1 := max(snap(x(b.Start)), painted[level]), snap(x(b.End))
		if x1 <= x0 {
			if snap(x(b.Start)) < painted[level] {
				continue
			}
			x1 = x0 + pixel
		}
		painted[level] = x1
		blocks = append(blocks, block{x0: x0, x1: x1, top: top, kind: b.kind, task: b.task})
	}
	return blocks
}

// shares turns the bars of a lane into columns of a given width, each stacked
// from the shares of its time that the kinds of task took.
func shares(bars []bar, from, to time.Duration, x func(time.Duration) vg.Length, column vg.Length) []block {
	left := snap(x(from))
	columns := int((x(to)-left)/column) + 1
	sums := make([]map[schedules.Kind]float64, columns)
	for _, b := range bars {
		x0, x1 := x(b.Start)-left, x(b.End)-left
		for c := int(x0 / column); c < columns && vg.Length(c)*column < x1; c++ {
			if sums[c] == nil {
				sums[c] = map[schedules.Kind]float64{}
			}
			low, high := vg.Length(c)*column, vg.Length(c+1)*column
			sums[c][b.kind] += float64((min(x1, high) - max(x0, low)) / column)
		}
	}
	var blocks []block
	for c, sum := range sums {
		x0 := left + vg.Length(c)*column
		blocks = append(blocks, stack(sum, x0, min(x0+column, snap(x(to))))...)
	}
	return blocks
}

// stack is one column of shares, in order of kind from the bottom.
func stack(sum map[schedules.Kind]float64, x0, x1 vg.Length) []block {
	var blocks []block
	level := 0.0
	for k := schedules.Forward; k <= schedules.Optimizer; k++ {
		if share := sum[k]; share > 0 && x1 > x0 {
			top := min(1, level+share)
			blocks = append(blocks, block{x0, x1, level, top, k, schedules.None})
			level = top
		}
	}
	return blocks
}
