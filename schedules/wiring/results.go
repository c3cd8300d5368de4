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
}

func newResults(p *Pipeline) *results {
	n := p.Placement.Stages() * p.Shape.Microbatches
	return &results{placement: p.Placement, microbatches: p.Shape.Microbatches, forward: make([]int32, n), backward: make([]int32, n)}
}

// to tells the rank that an action's result is sent to; None where it stays.
func (r *results) to(a order.Action) int32 {
	if _, leaves := a.Send(r.placement); leaves {
		return r.placement.Rank(a.Feeds(r.placement.Stages()), a.Microbatch)
	}
	return graph.None
}

// of points to where the task of an F, B or I stands.
func (r *results) of(a order.Action) *int32 {
	at := int(a.Stage)*r.microbatches + int(a.Microbatch)
	if a.Kind == graph.Forward {
		return &r.forward[at]
	}
	return &r.backward[at]
}
