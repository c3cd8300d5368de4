package plans

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// stageMemory holds the bytes that a microbatch takes on the rank of a stage. It assumes
// that messages arrive when they are needed and leave at once, so that an order needs at
// least this.
type stageMemory struct {
	inForward    int64 // the peak while F runs
	afterForward int64 // from the end of F on
	inBackward   int64 // the peak while B runs
	inInput      int64 // the peak while I runs
	afterInput   int64 // from the end of I until W
}

// least returns the peak of a microbatch by itself, whether its backward is split or not.
func (m *stageMemory) least() int64 {
	return max(m.inForward, m.afterForward, min(m.inBackward, m.inInput))
}

// measureActivations finds the memory of every stage, and reports whether a single
// microbatch already exceeds the memory of a rank: by a pass, or by what the forwards of all stages of a rank
// have left before the first backward.
func (g *stageGroup) measureActivations() (exceeds bool) {
	at, stages := g.graph.Placement, len(g.Workload.Stages)
	g.memory = make([]stageMemory, stages)
	left := make([]int64, g.Shape.Ranks)
	for s := range stages {
		m := g.memoryOf(s)
		g.memory[s] = m
		for _, r := range at.Ranks(s) {
			exceeds = exceeds || g.exceeds(int(r), m.least())
		}
		r := at.First[s]
		left[r] += m.afterForward
		exceeds = exceeds || g.exceeds(int(r), left[r])
	}
	return exceeds
}

// memoryOf follows a microbatch through a stage. A tensor that a stage passes on within its rank does not count:
// it may be gone before the passes of the stage are over.
func (g *stageGroup) memoryOf(stage int) (m stageMemory) {
	rank := g.graph.Placement.First[stage]
	message := func(k graph.Kind, from, to int) (start, end, within int64) {
		t, next := g.messageTask(k, from, to, 0)
		if !next {
			return 0, 0, 0
		}
		start, end = g.ledger.Task(&t)
		if g.graph.Placement.Together(from, to) {
			return 0, 0, end
		}
		return start, end, 0
	}
	compute := func(k graph.Kind) (start, end int64) {
		t := computeTask(k, rank, stage, 0)
		before, after := g.ledger.Parts(&t) // whole parameters and gradients come and go with collectives
		return before.Activations, after.Activations
	}
	forwardStart, forwardEnd := compute(graph.Forward)
	backwardStart, _ := compute(graph.Backward)
	inputStart, inputEnd := compute(graph.InputGradient)
	activationsIn, _, _ := message(graph.SendForward, stage-1, stage)
	_, activationsOut, activationsWithin := message(graph.SendForward, stage, stage+1)
	gradientsIn, _, _ := message(graph.SendBackward, stage+1, stage)
	_, gradientsOut, gradientsWithin := message(graph.SendBackward, stage, stage-1)
	m.inForward = activationsIn + forwardStart
	m.afterForward = m.inForward + forwardEnd + activationsOut + activationsWithin
	m.afterInput = m.afterForward + gradientsIn + inputStart + inputEnd + gradientsOut + gradientsWithin
	if !g.Workload.LossApart(stage) { // a loss between the passes may free what F has left
		m.inBackward, m.inInput = m.afterForward+gradientsIn+backwardStart, m.afterForward+gradientsIn+inputStart
	}
	return m
}

// exceedsMemory reports whether the microbatches that an order holds at some time exceed
// the memory of a rank, whenever messages arrive. In paired orders a backward may start before the
// forward that precedes it, so its peak does not count.
func (g *stageGroup) exceedsMemory(o order.Order, paired bool) bool {
	for r, actions := range o {
		var level int64
		for i := range actions {
			a := &actions[i]
			m := &g.memory[a.Stage]
			switch a.Kind {
			case graph.Forward:
				if g.exceeds(r, level+m.inForward) {
					return true
				}
				level += m.afterForward
			case graph.Backward:
				level -= m.afterForward
				if !paired && g.exceeds(r, level+m.inBackward) {
					return true
				}
			case graph.InputGradient:
				level -= m.afterForward
				if !paired && g.exceeds(r, level+m.inInput) {
					return true
				}
				level += m.afterInput
			case graph.WeightGradient:
				level -= m.afterInput
			}
			if g.exceeds(r, level) {
				return true
			}
		}
	}
	return false
}

// exceeds reports whether activations do not fit on a rank, with the allocator's reserve.
func (g *stageGroup) exceeds(rank int, activations int64) bool {
	return g.capacity > 0 && g.persistent[rank]+activations+g.process.Reserve(activations) > g.capacity
}
