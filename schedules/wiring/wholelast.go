package wiring

import (
	"cmp"
	"errors"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// addWholeLast puts the actions of the last stage between the forwards and the
// backwards of the others, if it takes all microbatches at once, and notes what
// both sides of it wait for. Messages between two stages arrive in order, so that
// the last one stands for all.
func (w *wiring) addWholeLast() error {
	if !w.WholeLast {
		return nil
	}
	if w.Synchronous {
		return errors.New("whole_last = true: has no clock cycles; set synchronous = false")
	}
	last := int32(len(w.Placement.First) - 1)
	arranged := make(order.Order, len(w.Order))
	for r, actions := range w.Order {
		back := slices.IndexFunc(actions, func(a order.Action) bool { return a.Kind != graph.Forward })
		if back >= 0 && slices.ContainsFunc(actions[back:], func(a order.Action) bool { return a.Kind == graph.Forward }) {
			return errors.New("whole_last = true: the last stage needs all forwards before its backwards, but this schedule has backwards between them; use gpipe, torchgpipe, hw4 or looped-bfs")
		}
		arranged[r] = slices.Clone(actions)
		slices.SortStableFunc(arranged[r], w.comparePhase)
		for _, a := range arranged[r] {
			switch {
			case a.Kind == graph.Forward && a.Stage == last-1:
				w.whole[0] = a.Microbatch
			case (a.Kind == graph.Backward || a.Kind == graph.InputGradient) && a.Stage == last:
				w.whole[1] = a.Microbatch
			}
		}
	}
	w.Order = arranged
	w.last = w.completions()
	return nil
}

// comparePhase orders actions by what comes first where the last stage takes all
// microbatches at once: forwards, those of the last stage, its backwards, the rest.
func (w *wiring) comparePhase(a, b order.Action) int {
	if !w.WholeLast {
		return 0
	}
	phase := func(a order.Action) int {
		last := int(a.Stage) == len(w.Placement.First)-1
		switch {
		case a.Kind == graph.Forward && !last:
			return 0
		case a.Kind == graph.Forward:
			return 1
		case last:
			return 2
		}
		return 3
	}
	return cmp.Compare(phase(a), phase(b))
}

// wholeNeed is what has to be there where an action's result is needed: of what
// enters and leaves a last stage that takes all microbatches at once, the last one.
func (w *wiring) wholeNeed(a order.Action) order.Action {
	last := int32(len(w.Placement.First) - 1)
	switch {
	case !w.WholeLast:
	case a.Kind == graph.Forward && a.Stage == last-1:
		a.Microbatch = w.whole[0]
	case a.Kind == graph.Backward && a.Stage == last:
		a.Microbatch = w.whole[1]
	}
	return a
}
