package costmodel

import (
	"psim/costmodel/arch"
	"psim/schedules/graph"
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
		case t.Kind == graph.InputGradient || t.Kind == graph.Backward:
			gone[at] = true
		case t.Kind == graph.WeightGradient && p.shared[t.Stage] == untilWeight:
			p.late[at] = gone[at-m]
		}
	}
}

// stays is what of the bytes that a task would free the stage before has counted
// and frees: its input.
func (p *pricer) stays(t *graph.Task) int64 {
	s := int(t.Stage)
	switch own := p.shared[s]; {
	case t.Kind == graph.Backward && own != notShared,
		t.Kind == graph.InputGradient && own == untilInput,
		t.Kind == graph.WeightGradient && own == untilWeight && !p.late[s*len(p.workload.Samples)+int(t.Microbatch)]:
		return p.received(s, int(p.sizeOf[t.Microbatch]), 0)
	}
	return 0
}

// held is 1 where the I or B of a stage leaves its result to a W of the next.
func (p *pricer) held(t *graph.Task) int {
	at := (int(t.Stage)+1)*len(p.workload.Samples) + int(t.Microbatch)
	if at < len(p.late) && p.late[at] {
		return 1
	}
	return 0
}
