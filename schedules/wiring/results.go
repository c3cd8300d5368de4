package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// routes says where results go.
type routes struct {
	placement graph.Placement
	// By stage and copy: the rank that activations and input gradients are sent
	// to; None where they stay.
	forward, backward []int32
}

func newRoutes(p graph.Placement) *routes {
	r := &routes{placement: p}
	for i := range len(p.First) + len(p.Second) {
		a := order.Action{Kind: graph.Forward, Stage: int32(i % p.Stages())}
		if i >= p.Stages() {
			a.Microbatch = p.Half
		}
		r.forward = append(r.forward, destination(a, p))
		a.Kind = graph.Backward
		r.backward = append(r.backward, destination(a, p))
	}
	return r
}

// destination is to, from the rule of what needs what.
func destination(a order.Action, p graph.Placement) int32 {
	if _, leaves := a.Send(p); leaves {
		return p.Rank(a.Feeds(p.Stages()), a.Microbatch)
	}
	return graph.None
}

// to is the rank that an action's result is sent to; None where it stays.
func (r *routes) to(a order.Action) int32 {
	switch a.Kind {
	case graph.Forward:
		return r.forward[r.placement.Copy(a.Stage, a.Microbatch)]
	case graph.WeightGradient:
		return graph.None
	}
	return r.backward[r.placement.Copy(a.Stage, a.Microbatch)]
}

// results holds the tasks of the replica at hand that make activations and input
// gradients, by stage and microbatch. Where a message carries the result, it is
// the next task.
type results struct {
	*routes
	microbatches      int
	forward, backward []int32
}

func newResults(p *Pipeline, r *routes) *results {
	m := p.Shape.Microbatches
	return &results{r, m, make([]int32, p.Placement.Stages()*m), make([]int32, p.Placement.Stages()*m)}
}

// of is where the task of an F, B or I stands.
func (r *results) of(a order.Action) *int32 {
	at := int(a.Stage)*r.microbatches + int(a.Microbatch)
	if a.Kind == graph.Forward {
		return &r.forward[at]
	}
	return &r.backward[at]
}
