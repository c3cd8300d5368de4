package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// results knows which tasks of the replica at hand make activations and input
// gradients, and where they are sent.
type results struct {
	placement    graph.Placement
	microbatches int
	// By stage and microbatch: the tasks. Where a message carries the result, it
	// is the next task.
	forward, backward []int32
	// By stage and copy: the rank that the result is sent to; None where it stays.
	forwardTo, backwardTo []int32
}

func newResults(p *Pipeline) *results {
	at, m := p.Placement, p.Shape.Microbatches
	r := &results{placement: at, microbatches: m, forward: make([]int32, at.Stages()*m), backward: make([]int32, at.Stages()*m)}
	for i := range len(at.First) + len(at.Second) {
		a := order.Action{Kind: graph.Forward, Stage: int32(i % at.Stages())}
		if i >= at.Stages() {
			a.Microbatch = at.Half
		}
		r.forwardTo = append(r.forwardTo, destination(a, at))
		a.Kind = graph.Backward
		r.backwardTo = append(r.backwardTo, destination(a, at))
	}
	return r
}

// destination finds the rank that an action's result is sent to, by the rule of what
// needs what.
func destination(a order.Action, p graph.Placement) int32 {
	if _, leaves := a.Send(p); leaves {
		return p.Rank(a.Feeds(p.Stages()), a.Microbatch)
	}
	return graph.None
}

// to tells the rank that an action's result is sent to; None where it stays.
func (r *results) to(a order.Action) int32 {
	switch a.Kind {
	case graph.Forward:
		return r.forwardTo[r.placement.Copy(a.Stage, a.Microbatch)]
	case graph.WeightGradient:
		return graph.None
	}
	return r.backwardTo[r.placement.Copy(a.Stage, a.Microbatch)]
}

// of points to where the task of an F, B or I stands.
func (r *results) of(a order.Action) *int32 {
	at := int(a.Stage)*r.microbatches + int(a.Microbatch)
	if a.Kind == graph.Forward {
		return &r.forward[at]
	}
	return &r.backward[at]
}
