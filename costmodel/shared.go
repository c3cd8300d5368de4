package costmodel

import (
	"psim/costmodel/arch"
	"psim/schedules"
)

// Where a stage keeps its output, and the next one is on the same rank and keeps
// its input, that is one tensor. It goes with the later of the two tasks that
// give it up: the I or B of the first stage, the B, I or W of the second.

// findShared notes which stages share their inputs, and with which microbatches
// a W of such a stage comes after the first stage has given the tensor up.
func (p *pricer) findShared() {
	n, m := len(p.workload.Layers), len(p.workload.Samples)
	p.shared, p.late = make([]sharing, n), make([]bool, n*m)
	p.readsInput = make([]bool, n)
	for s := 1; s < n; s++ {
		before, layers := p.workload.Stage(s-1), p.workload.Stage(s)
		keeps := p.workload.keepsInput(layers)
		p.readsInput[s] = keeps == notShared && !idle(layers)
		if p.workload.StageRank[s-1] == p.workload.StageRank[s] && p.workload.keepsOutput(before) {
			p.shared[s] = keeps
		}
	}
	gone := make([]bool, n*m) // given up by the first stage
	for i := range p.graph.Tasks {
		t := &p.graph.Tasks[i]
		if int(t.Rank) >= p.graph.Shape.Ranks {
			break
		}
		switch at := int(t.Stage)*m + int(t.Microbatch); {
		case t.Kind == schedules.InputGradient || t.Kind == schedules.Backward:
			gone[at] = true
		case t.Kind == schedules.WeightGradient && p.shared[t.Stage] == untilWeight:
			p.late[at] = gone[at-m]
		}
	}
}

// sharing says until when a stage keeps an input that the stage before keeps too.
type sharing uint8

const (
	notShared sharing = iota
	untilInput
	untilWeight
)

// idle reports whether layers hand on what they are given.
func idle(layers []arch.Layer) bool {
	for _, l := range layers {
		if len(l.Ops) > 0 || len(l.Input) != len(l.Output) {
			return false
		}
	}
	return true
}

// keepsInput finds the buffer that is a stage's input.
func (w Workload) keepsInput(layers []arch.Layer) sharing {
	for _, l := range layers {
		if idle([]arch.Layer{l}) {
			continue
		}
		switch b := inputOf(w.Training.Kept(l), l); {
		case b == nil:
			return notShared
		case b.Lifetime == arch.ForwardToWeight:
			return untilWeight
		}
		return untilInput
	}
	return notShared
}

// stays is what of the bytes that a task would free another task still needs, or
// has counted.
func (p *pricer) stays(t *schedules.Task) (bytes int64) {
	s, m := int(t.Stage), len(p.workload.Samples)
	at := s*m + int(t.Microbatch)
	switch own := p.shared[s]; {
	case t.Kind == schedules.Backward && own != notShared,
		t.Kind == schedules.InputGradient && own == untilInput,
		t.Kind == schedules.WeightGradient && own == untilWeight && !p.late[at]:
		bytes = p.result(s-1, t)
	}
	if t.Kind != schedules.WeightGradient && s+1 < len(p.shared) && p.late[at+m] {
		bytes += p.result(s, t)
	}
	return bytes
}
