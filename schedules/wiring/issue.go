package wiring

import (
	"cmp"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
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
		order.Action
	}
	var forwards []issue
	for r, actions := range w.Order {
		for i, a := range actions {
			if a.Kind == graph.Forward {
				forwards = append(forwards, issue{clocks[r][i], a})
			}
		}
	}
	slices.SortFunc(forwards, func(x, y issue) int {
		return cmp.Or(w.comparePhase(x.Action, y.Action), cmp.Compare(x.clock, y.clock), cmp.Compare(x.Stage, y.Stage))
	})
	w.issued = make([]order.Action, len(w.forward))
	for i, f := range forwards {
		before := order.Action{Stage: graph.None}
		if i+1 < len(forwards) {
			before = order.Action{Kind: graph.Backward, Stage: forwards[i+1].Stage, Microbatch: forwards[i+1].Microbatch}
		}
		w.issued[w.at(f.Stage, f.Microbatch)] = before
	}
	return nil
}

// turnAfter is the task whose end a backward waits for, if backwards run one at
// a time; otherwise None.
func (w *wiring) turnAfter(t *graph.Task) int32 {
	before := w.issuedAfter(order.Action{Kind: t.Kind, Stage: t.Stage, Microbatch: t.Microbatch})
	if before.Stage == graph.None {
		return graph.None
	}
	return w.result(before)
}

// issuedAfter is the backward that another one waits for, if they run one at a
// time; otherwise its stage is None.
func (w *wiring) issuedAfter(a order.Action) order.Action {
	if w.issued == nil || a.Kind != graph.Backward && a.Kind != graph.InputGradient {
		return order.Action{Stage: graph.None}
	}
	return w.issued[w.at(a.Stage, a.Microbatch)]
}
