package wiring

import (
	"cmp"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// turns holds the backward that every other one waits for, if they run one at a
// time; the zero value has none.
type turns struct {
	microbatches int
	before       []order.Action // by stage and microbatch
}

// turns finds the order of backwards that run one at a time.
func (p *Pipeline) turns(whole wholeStage) (turns, error) {
	t := turns{microbatches: p.Shape.Microbatches}
	if !p.SerialBackward {
		return t, nil
	}
	clocks, err := p.Order.Clocks()
	if err != nil {
		return t, err
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
		return cmp.Or(whole.phase(x.Action)-whole.phase(y.Action), cmp.Compare(x.clock, y.clock), cmp.Compare(x.Stage, y.Stage))
	})
	t.before = make([]order.Action, p.Placement.Stages()*t.microbatches)
	for i, f := range forwards {
		before := order.Action{Stage: graph.None}
		if i+1 < len(forwards) {
			before = order.Action{Kind: graph.Backward, Stage: forwards[i+1].Stage, Microbatch: forwards[i+1].Microbatch}
		}
		t.before[t.at(f.Action)] = before
	}
	return t, nil
}

func (t *turns) at(a order.Action) int { return int(a.Stage)*t.microbatches + int(a.Microbatch) }

// of finds the backward that an action waits for; its stage is None where there is
// none.
func (t *turns) of(a order.Action) order.Action {
	if t.before == nil || a.Kind != graph.Backward && a.Kind != graph.InputGradient {
		return order.Action{Stage: graph.None}
	}
	return t.before[t.at(a)]
}
