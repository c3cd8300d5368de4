package plans

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A held is what a stage does to the memory of its rank for a microbatch, without what a
// rank holds by chance: messages are there when they are needed, and sent at once.
type stageMemory struct {
	inForward    int64 // the most while F runs
	afterForward int64 // from F on
	afterInput   int64 // from I on, where a W follows
}

// activations finds what every stage holds, and reports whether a single microbatch is
// too much for a rank. Ranks on which neighbouring stages share tensors are left out.
func (u *stageGroup) measureActivations() (tooMuch bool) {
	at, stages := u.graph.Placement, len(u.Workload.Stages)
	u.stageMemory, u.counted = make([]stageMemory, stages), make([]bool, u.Shape.Ranks)
	for r := range u.counted {
		u.counted[r] = true
	}
	for s := range stages - 1 {
		if at.Together(s, s+1) {
			for _, r := range at.Ranks(s) {
				u.counted[r] = false
			}
		}
	}
	for s := range stages {
		h := u.memoryOf(s)
		u.stageMemory[s] = h
		for _, r := range at.Ranks(s) {
			tooMuch = tooMuch || u.counted[r] && u.exceeds(int(r), max(h.inForward, h.afterForward))
		}
	}
	return tooMuch
}

// hold follows a microbatch through a stage.
func (u *stageGroup) memoryOf(stage int) (h stageMemory) {
	rank := u.graph.Placement.First[stage]
	f, i := u.task(graph.Forward, rank, stage, 0), u.task(graph.InputGradient, rank, stage, 0)
	activations, gradients := u.message(graph.SendForward, stage-1, stage, 0), u.message(graph.SendBackward, stage+1, stage, 0)
	on, back := u.message(graph.SendForward, stage, stage+1, 0), u.message(graph.SendBackward, stage, stage-1, 0)
	h.inForward = activations.BytesAtStart + f.BytesAtStart
	h.afterForward = h.inForward + f.BytesAtEnd + on.BytesAtEnd
	h.afterInput = h.afterForward + gradients.BytesAtStart + i.BytesAtStart + i.BytesAtEnd + back.BytesAtEnd
	return h
}

// tooMuch reports whether an order holds more microbatches than the memory of a rank has
// room for, whenever messages come.
func (u *stageGroup) exceedsMemory(o order.Order) bool {
	for r, actions := range o {
		if !u.counted[r] {
			continue
		}
		var level int64
		for i := range actions {
			a := &actions[i]
			h := &u.stageMemory[a.Stage]
			switch a.Kind {
			case graph.Forward:
				if u.exceeds(r, level+h.inForward) {
					return true
				}
				level += h.afterForward
			case graph.Backward:
				level -= h.afterForward
			case graph.InputGradient:
				level += h.afterInput - h.afterForward
			case graph.WeightGradient:
				level -= h.afterInput
			}
			if u.exceeds(r, level) {
				return true
			}
		}
	}
	return false
}

// over reports whether activations are too much for a rank, with what the allocator holds
// beside them.
func (u *stageGroup) exceeds(rank int, activations int64) bool {
	return u.capacity > 0 && u.persistent[rank]+activations+u.process.Reserve(activations) > u.capacity
}
