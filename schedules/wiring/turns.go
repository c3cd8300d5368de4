package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// turns say which backward each backward waits for, where they run one at a time. The zero value is
// for graphs in which they do not.
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
	forwards := p.issued(whole, clocks)
	none := order.Action{Stage: graph.None, Microbatch: graph.None}
	t.before = slices.Repeat([]order.Action{none}, p.Placement.Stages()*t.microbatches)
	for i := range len(forwards) - 1 {
		next := forwards[i+1]
		t.before[t.index(forwards[i])] = order.B(int(next.Stage), int(next.Microbatch))
	}
	return t, nil
}

// issued lists the forwards in the order in which they are issued: by phase, clock cycle and stage.
// The forwards of a cycle are on different ranks.
func (p *Pipeline) issued(whole wholeStage, clocks [][]int32) []order.Action {
	last := int32(0)
	for _, list := range clocks {
		for _, clock := range list {
			last = max(last, clock)
		}
	}
	each := func(do func(key int, a order.Action)) {
		for r, actions := range p.Order {
			for i, a := range actions {
				if a.Kind == graph.Forward {
					do(whole.phase(a)*int(last+1)+int(clocks[r][i]), a)
				}
			}
		}
	}
	end := make([]int, 2*(last+1)) // by phase and cycle
	each(func(key int, _ order.Action) { end[key]++ })
	forwards := 0
	for key, n := range end {
		end[key] = forwards
		forwards += n
	}
	all := make([]order.Action, forwards)
	each(func(key int, a order.Action) {
		all[end[key]] = a
		end[key]++
	})
	begin := 0
	for _, end := range end {
		slices.SortFunc(all[begin:end], func(a, b order.Action) int { return int(a.Stage - b.Stage) })
		begin = end
	}
	return all
}

// index returns the place of an action's stage and microbatch in before.
func (t turns) index(a order.Action) int { return int(a.Stage)*t.microbatches + int(a.Microbatch) }

// waitsFor returns the backward that an action waits for. Its stage is None if the action does not
// wait for one.
func (t turns) waitsFor(a order.Action) order.Action {
	if t.before != nil && (a.Kind == graph.Backward || a.Kind == graph.InputGradient) {
		return t.before[t.index(a)]
	}
	return order.Action{Stage: graph.None}
}
