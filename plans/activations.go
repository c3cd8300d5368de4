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
// microbatch already exceeds the memory of a rank. Ranks on which neighbouring stages
// share tensors are not counted.
func (g *stageGroup) measureActivations() (exceeds bool) {
	at, stages := g.graph.Placement, len(g.Workload.Stages)
	g.memory, g.counted = make([]stageMemory, stages), make([]bool, g.Shape.Ranks)
	for r := range g.counted {
		g.counted[r] = true
	}
	for s := range stages - 1 {
		if at.Together(s, s+1) {
			for _, r := range at.Ranks(s) {
				g.counted[r] = false
			}
		}
	}
	for s := range stages {
		m := g.memoryOf(s)
		g.memory[s] = m
		for _, r := range at.Ranks(s) {
			exceeds = exceeds || g.counted[r] && g.exceeds(int(r), m.least())
		}
	}
	return exceeds
}

// memoryOf follows a microbatch through a stage.
func (g *stageGroup) memoryOf(stage int) (m stageMemory) {
	rank := g.graph.Placement.First[stage]
	message := func(k graph.Kind, from, to int) (start, end int64) {
		if t, sent := g.messageTask(k, from, to, 0); sent {
			return g.ledger.Task(&t)
		}
		return 0, 0
	}
	forward, input := computeTask(graph.Forward, rank, stage, 0), computeTask(graph.InputGradient, rank, stage, 0)
	forwardStart, forwardEnd := g.ledger.Task(&forward)
	inputStart, inputEnd := g.ledger.Task(&input)
	backward := computeTask(graph.Backward, rank, stage, 0)
	activationsIn, _ := message(graph.SendForward, stage-1, stage)
	_, activationsOut := message(graph.SendForward, stage, stage+1)
	gradientsIn, _ := message(graph.SendBackward, stage+1, stage)
	_, gradientsOut := message(graph.SendBackward, stage, stage-1)
	m.inForward = activationsIn + forwardStart
	m.afterForward = m.inForward + forwardEnd + activationsOut
	m.afterInput = m.afterForward + gradientsIn + inputStart + inputEnd + gradientsOut
	if g.Workload.LossApart(stage) { // a loss between the passes may free what F has left
		return m
	}
	peak := func(t *graph.Task) int64 { // without whole gradients: buckets may be scattered one after another
		start, _ := g.ledger.Parts(t)
		return m.afterForward + gradientsIn + start.Activations
	}
	m.inBackward, m.inInput = peak(&backward), peak(&input)
	return m
}

// exceedsMemory reports whether the microbatches that an order holds at some time exceed
// the memory of a rank, whenever messages arrive. In paired orders a backward may start before the
// forward that precedes it, so its peak does not count.
func (g *stageGroup) exceedsMemory(o order.Order, paired bool) bool {
	for r, actions := range o {
		if !g.counted[r] {
			continue
		}
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
