package schedules

import (
	"errors"
	"fmt"
	"slices"
)

// Custom is a schedule whose order is given, as by a file, and the shape that
// it is for. Where messages are written their places are checked, and left out
// of the order, whose wiring sends every result at once; so are the collectives of
// sharded parameters (see Schedule.LeftOut). An order that cannot
// be run to its end is an *OrderError.
func Custom(name string, o Order) (Schedule, Shape, error) {
	p, err := o.places()
	if err != nil {
		return Schedule{}, Shape{}, err
	}
	if r := slices.IndexFunc(o, func(actions []Action) bool { return len(actions) == 0 }); r >= 0 {
		return Schedule{}, Shape{}, fmt.Errorf("rank %d has nothing to do: line %d is empty", r, r+1)
	}
	compute := o.Compute()
	if compute.actions() == 0 {
		return Schedule{}, Shape{}, errors.New("no rank computes anything: there is no F, B, I or W")
	}
	shape := Shape{Ranks: len(o), Virtual: 1, Microbatches: o.Microbatches()}
	if len(p.first)%shape.Ranks == 0 {
		shape.Virtual = len(p.first) / shape.Ranks
	}
	// A number that is too high is found before anything of that size is made.
	if n := float64(len(p.first)) * float64(shape.Microbatches); n > float64(o.actions()) {
		return Schedule{}, Shape{}, fmt.Errorf("stages 0 to %d and microbatches 0 to %d would have %.0f forwards; there are %d actions in all: number both from 0, without gaps", len(p.first)-1, shape.Microbatches-1, n, o.actions())
	}
	if err := compute.validate(p.rank, len(p.first), shape.Microbatches); err != nil {
		return Schedule{}, Shape{}, err
	}
	if o.HasMessages() {
		if err := o.checkMessages(p); err != nil {
			return Schedule{}, Shape{}, err
		}
	}
	if _, err := compute.Clocks(); err != nil {
		return Schedule{}, Shape{}, err
	}
	leftOut := ""
	if o.HasSharding() {
		leftOut = "UNSHARD, RESHARD and REDUCE_GRAD are left out: psim sums gradients as [parallel] says"
	}
	own := Schedule{
		LeftOut: leftOut,
		Name:    name, Summary: "an order of one's own", Bubble: "-", Memory: "-", Paper: "-", Pipelined: true, Virtual: true,
		order: func(Shape, []int32) Order { return compute },
		place: func(Shape) []int32 { return p.first },
	}
	if p.second != nil {
		own.second = func(Shape) []int32 { return p.second }
	}
	return own, shape, nil
}
