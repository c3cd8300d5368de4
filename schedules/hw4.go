package schedules

import (
	"cmp"
	"slices"
)

// hw4 is the pipeline of CMU's course 11-868, assignment 4, as PyTorch really
// runs it: the forwards overlap by clock cycles, as in torchgpipe, but autograd
// issues the backwards from one queue, in exactly the reverse order, and copies
// between devices block, so that backwards run one at a time.
//
//	rank 0   F0 F1 F2 F3 ·  ·  ·  B3 ·  B2 ·  B1 B0
//	rank 1   ·  F0 F1 F2 F3 B3 B2 ·  B1 ·  B0 ·  ·    (B as long as F)
//
// A rank may hold several stages, as the course's placement of GPT-2 does.
func hw4(s Shape, stageRank []int32) Order {
	order := make(Order, s.Ranks)
	for _, cycle := range ClockCycles(s.Microbatches, len(stageRank)) {
		for _, c := range cycle {
			r := stageRank[c.Stage]
			order[r] = append(order[r], Action{Kind: Forward, Stage: int32(c.Stage), Microbatch: int32(c.Microbatch)})
		}
	}
	for r, forwards := range order {
		for _, a := range slices.Backward(forwards) {
			order[r] = append(order[r], Action{Kind: Backward, Stage: a.Stage, Microbatch: a.Microbatch})
		}
	}
	return order
}

// addIssue finds which backward every other one waits for, if they run one at a
// time.
func (w *wiring) addIssue() error {
	if !w.SerialBackward {
		return nil
	}
	clocks, err := w.Order.Clocks()
	if err != nil {
		return err
	}
	type issue struct {
		clock int32
		Action
	}
	var forwards []issue
	for r, actions := range w.Order {
		for i, a := range actions {
			if a.Kind == Forward {
				forwards = append(forwards, issue{clocks[r][i], a})
			}
		}
	}
	slices.SortFunc(forwards, func(x, y issue) int {
		return cmp.Or(w.comparePhase(x.Action, y.Action), cmp.Compare(x.clock, y.clock), cmp.Compare(x.Stage, y.Stage))
	})
	w.issued = make([]Action, len(w.forward))
	for i, f := range forwards {
		before := Action{Stage: None}
		if i+1 < len(forwards) {
			before = Action{Kind: Backward, Stage: forwards[i+1].Stage, Microbatch: forwards[i+1].Microbatch}
		}
		w.issued[w.at(f.Stage, f.Microbatch)] = before
	}
	return nil
}

// turnAfter is the task whose end a backward waits for, if backwards run one at
// a time; otherwise None.
func (w *wiring) turnAfter(t *Task) int32 {
	before, waits := w.issuedAfter(Action{Kind: t.Kind, Stage: t.Stage, Microbatch: t.Microbatch})
	if !waits {
		return None
	}
	return w.result(before)
}

// issuedAfter is the backward that another one waits for, if they run one at a time.
func (w *wiring) issuedAfter(a Action) (before Action, waits bool) {
	if w.issued == nil || a.Kind != Backward && a.Kind != InputGradient {
		return Action{}, false
	}
	before = w.issued[w.at(a.Stage, a.Microbatch)]
	return before, before.Stage != None
}
