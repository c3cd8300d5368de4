package schedules

import (
	"errors"
	"fmt"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// Custom is a schedule whose order is given, as by a file, and the shape that
// it is for. Where messages are written their places are checked, and left out
// of the order, whose wiring sends every result at once; so are the collectives of
// sharded parameters (see Schedule.LeftOut). An order that cannot
// be run to its end is an *OrderError.
func Custom(name string, o order.Order) (Schedule, graph.Shape, error) {
	p, err := o.Placement()
	if err != nil {
		return Schedule{}, graph.Shape{}, err
	}
	if r := slices.IndexFunc(o, func(actions []order.Action) bool { return len(actions) == 0 }); r >= 0 {
		return Schedule{}, graph.Shape{}, fmt.Errorf("rank %d has nothing to do: line %d is empty", r, r+1)
	}
	compute := o.Compute()
	if compute.Actions() == 0 {
		return Schedule{}, graph.Shape{}, errors.New("no rank computes anything: there is no F, B, I or W")
	}
	shape := graph.Shape{Ranks: len(o), Virtual: 1, Microbatches: o.Microbatches()}
	if p.Stages()%shape.Ranks == 0 {
		shape.Virtual = p.Stages() / shape.Ranks
	}
	// A number that is too high is found before anything of that size is made.
	if n := float64(p.Stages()) * float64(shape.Microbatches); n > float64(o.Actions()) {
		return Schedule{}, graph.Shape{}, fmt.Errorf("stages 0 to %d and microbatches 0 to %d would have %.0f forwards; there are %d actions in all: number both from 0, without gaps", p.Stages()-1, shape.Microbatches-1, n, o.Actions())
	}
	if err := compute.Validate(p, shape.Microbatches); err != nil {
		return Schedule{}, graph.Shape{}, err
	}
	if o.HasMessages() {
		if err := o.CheckMessages(p); err != nil {
			return Schedule{}, graph.Shape{}, err
		}
	}
	if _, err := compute.Clocks(); err != nil {
		return Schedule{}, graph.Shape{}, err
	}
	leftOut := ""
	if o.HasSharding() {
		leftOut = "UNSHARD, RESHARD and REDUCE_GRAD are left out: psim sums gradients as [parallel] says"
	}
	own := Schedule{
		LeftOut: leftOut,
		Name:    name, Summary: "an order of one's own", Bubble: "-", Memory: "-", Paper: "-", Pipelined: true, Virtual: true,
		order: func(graph.Shape, []int32) order.Order { return compute },
		place: func(graph.Shape) graph.Placement { return p },
	}
	return own, shape, nil
}
