package wiring

import (
	"cmp"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// turns has, by stage and microbatch of a backward, the backward that it waits for. It is nil unless
// backwards run one at a time.
type turns map[[2]int32]order.Action

// turns finds the order of backwards that run one at a time.
func (p *Pipeline) turns(whole wholeStage) (turns, error) {
	if !p.SerialBackward {
		return nil, nil
	}
	clocks, err := p.Order.Clocks()
	if err != nil {
		return nil, err
	}
	type issue struct {
		clock int32
		order.Action
	}
	var forwards []issue
	for r, actions := range p.Order {
		for i, a := range actions {
			if a.Kind == graph.Forward {
				forwards = append(forwards, issue{clocks[r][i], a})
			}
		}
	}
	slices.SortFunc(forwards, func(x, y issue) int {
		byPhase := whole.phase(x.Action) - whole.phase(y.Action)
		return cmp.Or(byPhase, cmp.Compare(x.clock, y.clock), cmp.Compare(x.Stage, y.Stage))
	})
	t := turns{}
	for i := range len(forwards) - 1 {
		next := forwards[i+1]
		t[[2]int32{forwards[i].Stage, forwards[i].Microbatch}] = order.B(int(next.Stage), int(next.Microbatch))
	}
	return t, nil
}

// before returns the backward that an action waits for. Its stage is None if the action does not
// wait for one.
func (t turns) before(a order.Action) order.Action {
	if a.Kind == graph.Backward || a.Kind == graph.InputGradient {
		if before, ok := t[[2]int32{a.Stage, a.Microbatch}]; ok {
			return before
		}
	}
	return order.Action{Stage: graph.None}
}
