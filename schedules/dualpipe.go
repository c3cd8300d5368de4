package schedules

import (
	"cmp"
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// dualPipeV folds DualPipe into a V, so that every stage exists once:
// rank r holds stages r and 2P − 1 − r, and forwards of one overlap with
// backwards of the other in pairs (Qi et al. 2025, "Cut-in-half";
// DeepSeek-AI 2025, the DualPipe repository). With P = 2 and M = 4 (second stage
// in lower case, pairs in brackets, microbatches omitted):
//
//	rank 0   F F F f i w f (F b) (f B) b (f B) b I W I W
//	rank 1   · F f F f F b (f B) (F b) (f B) b B i I w W
func dualPipeV() Schedule {
	return Schedule{
		Name: "dualpipev", Summary: "the V of zbv, with forwards and backwards in overlapped pairs",
		About: "DualPipe cut in half: the V of zbv instead of two directions, so that every stage is on one " +
			"rank only. A forward and a backward of different microbatches run as a pair, and the " +
			"messages of one hide behind the work of the other.",
		Bubble: "(P-1)(F&B+B-3W) of rank 0, F=I=W, F&B=F+B", Memory: "2P+1",
		Paper:      "DeepSeek-AI 2025, DualPipe; Qi et al. 2025, Cut-in-half",
		Constraint: "2 stages per rank, M>=2P", Pipelined: true, PerRank: 2,
		order: byRank(dualPipeVRank), place: vShape, legal: requireTwoPerRank("dualpipev"),
	}
}

func dualPipeVRank(s graph.Shape, r int) []order.Action {
	return dualPhases(r, s.Ranks, vLanes(r, s.Ranks, s.Microbatches))
}

// dualPipe sends the first half of the microbatches down the ranks and the
// second half up, each through stages of its own, so that every stage exists twice;
// forwards of one direction overlap with backwards of the other in pairs
// (DeepSeek-AI 2024, "DeepSeek-V3", section 3.2.1). With P = 2 and M = 4
// (microbatches 2 and 3 in lower case, pairs in brackets):
//
//	rank 0   F f F b (f B) b I W
//	rank 1   f F f B (F b) B i w
func dualPipe() Schedule {
	return Schedule{
		Name: "dualpipe", Summary: "two opposite pipelines, every stage twice, in overlapped pairs",
		About: "Microbatches enter at both ends, through two copies of all stages, and a forward of one " +
			"direction runs as a pair with a backward of the other. Made for expert parallelism, whose " +
			"messages hide inside the pairs. Parameters are held twice, and their gradients are summed " +
			"over two ranks.",
		Bubble: "(P/2-1)(F&B+B-3W) of rank 0, F=I=W, F&B=F+B", Memory: "P+1", Paper: "DeepSeek-AI 2024, DeepSeek-V3",
		Constraint: "P and M even, M>=2P", Pipelined: true,
		order: byRank(dualPipeRank), place: oppositeCopies,
		legal: func(s graph.Shape) error {
			return cmp.Or(requireEven("dualpipe", s), requireTwoPerRank("dualpipe")(s))
		},
	}
}

func dualPipeRank(s graph.Shape, r int) []order.Action {
	half := int32(s.Microbatches / 2)
	down := lane{stage: int32(r), microbatches: half}
	up := lane{stage: int32(s.Ranks - 1 - r), first: half, microbatches: half}
	if r >= s.Ranks/2 {
		return dualPhases(s.Ranks-1-r, s.Ranks/2, [2]lane{up, down})
	}
	return dualPhases(r, s.Ranks/2, [2]lane{down, up})
}

// requireEven demands even numbers of ranks and microbatches, for two directions.
func requireEven(name string, s graph.Shape) error {
	switch {
	case s.Ranks%2 != 0:
		return fmt.Errorf("stages = %d: %s has two directions, which meet in the middle; %s",
			s.Ranks, name, nextEven(s.Ranks))
	case s.Microbatches%2 != 0:
		return fmt.Errorf("microbatches = %d: %s sends half of them in each direction; %s",
			s.Microbatches, name, nextEven(s.Microbatches))
	}
	return nil
}

// dualPhases lists the order of one rank in DualPipe's eight phases. h is the rank's
// distance from the end, and height the number of ranks from the end to the point where
// the lanes turn or meet. Weight gradients of both lanes wait in one queue.
func dualPhases(h, height int, both [2]lane) []order.Action {
	d := &dualOrder{lanes: lanes{lane: both}}
	d.do(2*(height-h-1), 0, graph.Forward)
	for range h + 1 {
		d.do(1, 0, graph.Forward)
		d.do(1, 1, graph.Forward)
	}
	for range height - h - 1 {
		d.input(1)
		d.weight()
		d.do(1, 1, graph.Forward)
	}
	for i := range int(both[0].microbatches) - 2*height + h + 1 {
		d.pair(0, i > 0 || h < height-1) // the first forward at the turn has no backward to overlap with
		d.pair(1, true)
	}
	for range height - h - 1 {
		d.backward(1)
		d.pair(1, true)
	}
	for i := range 2 * (h + 1) {
		if i <= h {
			d.backward(1 - i%2)
		} else {
			d.input(1 - i%2)
		}
	}
	for range height - h - 1 {
		d.weight()
		d.input(0)
	}
	for range h + 1 {
		d.weight()
	}
	return d.actions
}

// dualOrder builds a rank's order as DualPipe does.
type dualOrder struct {
	lanes
	waiting []order.Action // weight gradients, first in, first out
}

// backward appends the next B of a lane. B and I share one count.
func (d *dualOrder) backward(lane int) {
	a, _ := d.lane[lane].take(graph.InputGradient)
	a.Kind = graph.Backward
	d.actions = append(d.actions, a)
}

// input appends the next I of a lane and queues its W.
func (d *dualOrder) input(lane int) {
	a, _ := d.lane[lane].take(graph.InputGradient)
	d.actions = append(d.actions, a)
	a.Kind = graph.WeightGradient
	d.waiting = append(d.waiting, a)
}

// weight appends the W that has waited the longest.
func (d *dualOrder) weight() {
	d.actions, d.waiting = append(d.actions, d.waiting[0]), d.waiting[1:]
}

// pair appends the next F of a lane and the next B of the other lane, either overlapped
// or one after the other.
func (d *dualOrder) pair(lane int, overlapped bool) {
	f, _ := d.lane[lane].take(graph.Forward)
	f.Pair = overlapped
	d.actions = append(d.actions, f)
	d.backward(1 - lane)
}

// nextEven names the even numbers next to an odd one.
func nextEven(n int) string {
	if n == 1 {
		return "the least even number is 2"
	}
	return fmt.Sprintf("the next even numbers are %d and %d", n-1, n+1)
}
