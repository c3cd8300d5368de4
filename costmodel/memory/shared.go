package memory

import (
	"slices"

	"psim/costmodel/network"
	"psim/schedules/graph"
)

// If a stage keeps its output, and the next stage is on the same rank and keeps its input, they
// keep the same tensor. The later of the two tasks that need it frees it: the I or B of the
// first stage, or the B, I or W of the second.

// sharing says until which pass a segment keeps its input.
type sharing uint8

const (
	notShared   sharing = iota // until F
	untilInput                 // until I
	untilWeight                // until W
)

// keepsInput returns how long layers keep their input.
func keepsInput(kept []layerKept, layers []network.Layer) sharing {
	for i, l := range layers {
		if l.Idle() {
			continue
		}
		switch b := inputOf(kept[i].buffers, l); {
		case b == nil:
			return notShared
		case b.Lifetime == network.ForwardToWeight:
			return untilWeight
		}
		return untilInput
	}
	return notShared
}

// findLate finds the microbatches for which the W of a stage that shares its input comes after
// the stage before has freed it.
func (l *Ledger) findLate() {
	m := len(l.staged.Samples)
	l.late = nil
	if !slices.ContainsFunc(l.stages, func(s stage) bool { return s.input == untilWeight }) {
		return
	}
	l.late = make([]bool, len(l.stages)*m)
	for at, late := range l.graph.Late {
		l.late[at] = late && l.stages[at/m].input == untilWeight
	}
}

// sharedInput returns the bytes of a task's input if the stage before counts and frees them, too.
func (l *Ledger) sharedInput(t *graph.Task) int64 {
	s := int(t.Stage)
	switch own := l.stages[s].input; {
	case t.Kind == graph.Backward && own != notShared,
		t.Kind == graph.InputGradient && own == untilInput,
		t.Kind == graph.WeightGradient && own == untilWeight && !l.late[s*len(l.staged.Samples)+int(t.Microbatch)]:
		return l.inputBytes(s, int(l.staged.SizeOf(t)), 0)
	}
	return 0
}

// held returns 1 if the I or B of a stage leaves its result to a W of the next stage, else 0.
func (l *Ledger) held(t *graph.Task) int {
	at := (int(t.Stage)+1)*len(l.staged.Samples) + int(t.Microbatch)
	if at < len(l.late) && l.late[at] {
		return 1
	}
	return 0
}
