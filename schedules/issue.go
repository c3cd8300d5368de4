package schedules

import (
	"cmp"
	"slices"
)

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
