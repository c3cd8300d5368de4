package costmodel

import (
	"psim/costmodel/arch"
	"psim/schedules"
)

// Where a stage keeps its output, and the next one is on the same rank and keeps
// its input, that is one tensor. It goes with the later of the two tasks that
// give it up: the I or B of the first stage, the B, I or W of the second.

// sharing says until when a segment keeps its input.
type sharing uint8

const (
	notShared   sharing = iota // not beyond F
	untilInput                 // until I
	untilWeight                // until W
)

// keepsInput finds the buffer that is the input of layers.
func (w Workload) keepsInput(layers []arch.Layer) sharing {
	for i, l := range layers {
		if isIdle(layers[i : i+1]) {
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

// findShared notes which stages share their inputs with the stage before, and
// with which microbatches a W of such a stage comes after that one has given the
// tensor up.
func (p *pricer) findShared() {
	n, m := len(p.workload.Layers), len(p.workload.Samples)
	p.shared, p.late = make([]sharing, n), make([]bool, n*m)
	for s := 1; s < n; s++ {
		if p.shares(s, 0, 0) {
			p.shared[s] = p.prices[s][0].segments[0].inputs
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

// stays is what of the bytes that a task would free another stage's task still
// needs, or has counted. Of a task in slices, the last one frees the stage's
// input and the first its result.
func (p *pricer) stays(t *schedules.Task, first, last bool) (bytes int64) {
	s, m := int(t.Stage), len(p.workload.Samples)
	at := s*m + int(t.Microbatch)
	switch own := p.shared[s]; {
	case !last:
	case t.Kind == schedules.Backward && own != notShared,
		t.Kind == schedules.InputGradient && own == untilInput,
		t.Kind == schedules.WeightGradient && own == untilWeight && !p.late[at]:
		bytes = p.received(s, int(p.sizeOf[t.Microbatch]), 0)
	}
	if first && t.Kind != schedules.WeightGradient && s+1 < len(p.shared) && p.late[at+m] {
		bytes += p.prices[s][p.sizeOf[t.Microbatch]].last().result
	}
	return bytes
}
