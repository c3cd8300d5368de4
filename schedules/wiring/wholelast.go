package wiring

import (
	"errors"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// A wholeStage is a last stage that takes all microbatches at once. Messages between
// two stages arrive in order, so that all have arrived when the last one has.
type wholeStage struct {
	stage int32 // None if the last stage takes microbatches one by one
	// in is the last microbatch that arrives at the stage, out the last whose gradient
	// it sends.
	in, out int32
}

// arrange moves the actions of a whole last stage between the forwards and the
// backwards of the others, if the pipeline has such a stage.
func (p *Pipeline) arrange() (wholeStage, error) {
	w := wholeStage{stage: graph.None}
	if !p.WholeLast {
		return w, nil
	}
	if p.Synchronous {
		return w, errors.New("whole_last = true: has no clock cycles; set synchronous = false")
	}
	w.stage = int32(p.Placement.Stages() - 1)
	arranged := make(order.Order, len(p.Order))
	for r, actions := range p.Order {
		isForward := func(a order.Action) bool { return a.Kind == graph.Forward }
		back := slices.IndexFunc(actions, func(a order.Action) bool { return !isForward(a) })
		if back >= 0 && slices.ContainsFunc(actions[back:], isForward) {
			return w, errors.New("whole_last = true: the last stage needs all forwards before its backwards, " +
				"but this schedule has backwards between them; use gpipe, torchgpipe, hw4 or looped-bfs")
		}
		arranged[r] = slices.Clone(actions)
		slices.SortStableFunc(arranged[r], func(a, b order.Action) int { return w.phase(a) - w.phase(b) })
		for _, a := range arranged[r] {
			switch {
			case a.Kind == graph.Forward && a.Stage == w.stage-1:
				w.in = a.Microbatch
			case (a.Kind == graph.Backward || a.Kind == graph.InputGradient) && a.Stage == w.stage:
				w.out = a.Microbatch
			}
		}
	}
	p.Order = arranged
	return w, nil
}

// phase numbers the order of actions around a whole last stage: first the forwards of other stages,
// then the forwards and the backwards of the stage, then the backwards of other stages.
func (w wholeStage) phase(a order.Action) int {
	switch {
	case w.stage == graph.None || a.Kind == graph.Forward && a.Stage != w.stage:
		return 0
	case a.Kind == graph.Forward:
		return 1
	case a.Stage == w.stage:
		return 2
	}
	return 3
}

// last replaces an action whose result is needed by the action whose result arrives last, if results
// enter or leave a whole stage.
func (w wholeStage) last(a order.Action) order.Action {
	switch {
	case w.stage == graph.None:
	case a.Kind == graph.Forward && a.Stage == w.stage-1:
		a.Microbatch = w.in
	case a.Kind == graph.Backward && a.Stage == w.stage:
		a.Microbatch = w.out
	}
	return a
}
