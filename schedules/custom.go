package schedules

import (
	"errors"
	"fmt"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// Custom makes a schedule of a given order, such as one from a file, and returns it
// with the shape that the order is for. If the order has messages, their places are
// checked and the messages dropped, because wiring sends every result at once;
// collectives of sharded parameters are dropped too (see Schedule.LeftOut). The error of
// an order that cannot run to its end is an *order.Error.
func Custom(name string, o order.Order) (Schedule, graph.Shape, error) {
	p, err := o.Placement()
	if err != nil {
		return Schedule{}, graph.Shape{}, err
	}
	compute := o.Compute()
	if err := checkWritten(o, compute, p); err != nil {
		return Schedule{}, graph.Shape{}, err
	}
	shape := graph.Shape{Ranks: len(o), Virtual: 1, Microbatches: o.Microbatches()}
	if p.Stages()%shape.Ranks == 0 {
		shape.Virtual = p.Stages() / shape.Ranks
	}
	own := Schedule{
		Name: name, Summary: "an order of one's own", Bubble: "-", Memory: "-", Paper: "-",
		Pipelined: true, Virtual: true,
		order: func(graph.Shape, []int32) order.Order { return compute },
		place: func(graph.Shape) graph.Placement { return p },
	}
	if o.HasSharding() {
		own.LeftOut = "UNSHARD, RESHARD and REDUCE_GRAD are left out: psim sums gradients as [parallel] says"
	}
	return own, shape, nil
}

// checkWritten returns an error if a written order is not a training step that can run
// to its end. compute holds the compute actions of the order.
func checkWritten(o, compute order.Order, p graph.Placement) error {
	if r := slices.IndexFunc(o, func(actions []order.Action) bool { return len(actions) == 0 }); r >= 0 {
		return fmt.Errorf("rank %d has nothing to do: line %d is empty", r, r+1)
	}
	if compute.Actions() == 0 {
		return errors.New("no rank computes anything: the order has no F, B, I or W")
	}
	microbatches := o.Microbatches()
	// Refuse a huge number before allocating anything of that size.
	if n := float64(p.Stages()) * float64(microbatches); n > float64(o.Actions()) {
		return fmt.Errorf("stages 0 to %d and microbatches 0 to %d would have %.0f forwards; "+
			"there are %d actions in all: number both from 0, without gaps",
			p.Stages()-1, microbatches-1, n, o.Actions())
	}
	if err := compute.Validate(p, microbatches); err != nil {
		return explainDump(err, compute, p)
	}
	if o.HasMessages() {
		if err := o.CheckMessages(p); err != nil {
			return err
		}
	}
	_, err := compute.Clocks()
	return err
}

// explainDump adds to the error of an invalid order that it is what PyTorch writes for its
// 1F1B: up to 2.15 it numbers the last rank's forwards from 1, in files only.
func explainDump(err error, compute order.Order, p graph.Placement) error {
	bad, ok := err.(*order.Error)
	if !ok {
		return err
	}
	last := len(compute) - 1
	mended := slices.Clone(compute)
	mended[last] = slices.Clone(compute[last])
	for i := range mended[last] {
		if mended[last][i].Kind == graph.Forward {
			mended[last][i].Microbatch--
		}
	}
	if mended.Validate(p, mended.Microbatches()) == nil {
		bad.Problem += fmt.Sprintf("; PyTorch's file of 1F1B has this fault: "+
			"it numbers the forwards of rank %d from 1; psim schedule 1f1b writes the order", last)
	}
	return bad
}
