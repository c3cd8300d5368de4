package plans

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A held is what a stage does to the memory of its rank for a microbatch, without what a
// rank holds by chance: messages are there when they are needed, and sent at once.
type held struct {
	forward int64 // the most while F runs
	kept    int64 // from F on
	rest    int64 // from I on, where a W follows
}

// activations finds what every stage holds, and reports whether a single microbatch is
// too much for a rank. Ranks on which neighbouring stages share tensors are left out.
func (u *unit) activations() (tooMuch bool) {
	at, stages := u.graph.Placement, len(u.Workload.Stages)
	u.held, u.walked = make([]held, stages), make([]bool, u.Shape.Ranks)
	for r := range u.walked {
		u.walked[r] = true
	}
	for s := range stages - 1 {
		if at.Together(s, s+1) {
			for _, r := range at.Ranks(s) {
				u.walked[r] = false
			}
		}
	}
	for s := range stages {
		h := u.hold(s)
		u.held[s] = h
		for _, r := range at.Ranks(s) {
			tooMuch = tooMuch || u.walked[r] && u.over(int(r), max(h.forward, h.kept))
		}
	}
	return tooMuch
}

// hold follows a microbatch through a stage.
func (u *unit) hold(stage int) (h held) {
	rank := u.graph.Placement.First[stage]
	f, i := u.task(graph.Forward, rank, stage, 0), u.task(graph.InputGradient, rank, stage, 0)
	activations, gradients := u.message(graph.SendForward, stage-1, stage, 0), u.message(graph.SendBackward, stage+1, stage, 0)
	on, back := u.message(graph.SendForward, stage, stage+1, 0), u.message(graph.SendBackward, stage, stage-1, 0)
	h.forward = activations.BytesAtStart + f.BytesAtStart
	h.kept = h.forward + f.BytesAtEnd + on.BytesAtEnd
	h.rest = h.kept + gradients.BytesAtStart + i.BytesAtStart + i.BytesAtEnd + back.BytesAtEnd
	return h
}

// tooMuch reports whether an order holds more microbatches than the memory of a rank has
// room for, whenever messages come.
func (u *unit) tooMuch(o order.Order) bool {
	for r, actions := range o {
		if !u.walked[r] {
			continue
		}
		var level int64
		for i := range actions {
			a := &actions[i]
			h := &u.held[a.Stage]
			switch a.Kind {
			case graph.Forward:
				if u.over(r, level+h.forward) {
					return true
				}
				level += h.kept
			case graph.Backward:
				level -= h.kept
			case graph.InputGradient:
				level += h.rest - h.kept
			case graph.WeightGradient:
				level -= h.rest
			}
			if u.over(r, level) {
				return true
			}
		}
	}
	return false
}

// over reports whether activations are too much for a rank, with what the allocator holds
// beside them.
func (u *unit) over(rank int, activations int64) bool {
	return u.capacity > 0 && u.persistent[rank]+activations+u.process.Reserve(activations) > u.capacity
}
