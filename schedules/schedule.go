package schedules

import (
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// Sized returns a shape with the schedule's own number of stages per rank, unless the
// shape has one.
func (s Schedule) Sized(shape graph.Shape) graph.Shape {
	if s.PerRank > 0 && shape.Virtual <= 1 {
		shape.Virtual = s.PerRank
	}
	return shape
}

// Placement returns the rank of every stage.
func (s Schedule) Placement(shape graph.Shape) graph.Placement {
	if s.place != nil {
		return s.place(shape)
	}
	return graph.InOrder(shape.Ranks)
}

// Order generates the compute order for a shape. stageRank is the rank of every
// stage; nil means the schedule's own Placement.
func (s Schedule) Order(shape graph.Shape, stageRank []int32) (order.Order, error) {
	if err := s.Check(shape); err != nil {
		return nil, err
	}
	shape = s.Sized(shape)
	if stageRank == nil {
		stageRank = s.Placement(shape).First
	} else if err := s.checkPlacement(stageRank, shape); err != nil {
		return nil, err
	}
	return s.order(shape, stageRank), nil
}

// Pipeline returns the schedule for a shape, ready to be wired. stageRank is as for
// Order.
func (s Schedule) Pipeline(shape graph.Shape, stageRank []int32) (wiring.Pipeline, error) {
	o, err := s.Order(shape, stageRank)
	if err != nil {
		return wiring.Pipeline{}, err
	}
	shape = s.Sized(shape)
	placement := s.Placement(shape)
	if stageRank != nil {
		placement.First = stageRank
	}
	return wiring.Pipeline{
		Name: s.Name, Shape: shape, Placement: placement,
		Order: o, SerialBackward: s.SerialBackward, Stashing: s.Stashing,
	}, nil
}

// Check returns an error if the schedule cannot serve a shape.
func (s Schedule) Check(shape graph.Shape) error {
	shape = s.Sized(shape)
	switch {
	case shape.Ranks < 1:
		return fmt.Errorf("stages = %d: there must be at least 1", shape.Ranks)
	case shape.Microbatches < 1:
		return fmt.Errorf("microbatches = %d: there must be at least 1", shape.Microbatches)
	case s.PerRank > 0 && !s.Virtual && shape.Virtual > s.PerRank:
		return fmt.Errorf("virtual_stages = %d: %s holds %d stages per rank; remove virtual_stages or set it to %d",
			shape.Virtual, s.Name, s.PerRank, s.PerRank)
	case shape.Virtual > 1 && !s.Virtual && s.PerRank == 0:
		return fmt.Errorf("virtual_stages = %d: %s holds one stage per rank; remove virtual_stages or set it to 1",
			shape.Virtual, s.Name)
	case !s.Pipelined && shape.Ranks > 1:
		return fmt.Errorf("stages = %d: %s does not split the network, so it takes 1; "+
			"its copies are set by parallel.data", shape.Ranks, s.Name)
	case shape.Virtual < 0:
		return fmt.Errorf("virtual_stages = %d: there must be at least 1", shape.Virtual)
	case shape.Group != 0 && !s.Grouped:
		return fmt.Errorf("group = %d: %s has no groups of microbatches; remove group", shape.Group, s.Name)
	case shape.Virtual > 1 && tasksPerReplica(shape) > graph.MaxTasks:
		return fmt.Errorf("stages = %d × virtual_stages = %d × microbatches = %d: more than %d tasks",
			shape.Ranks, shape.Virtual, shape.Microbatches, graph.MaxTasks)
	case tasksPerReplica(shape) > graph.MaxTasks:
		return fmt.Errorf("stages = %d × microbatches = %d: more than %d tasks",
			shape.Ranks, shape.Microbatches, graph.MaxTasks)
	case s.legal != nil:
		return s.legal(shape)
	}
	return nil
}

// checkPlacement returns an error if the schedule cannot serve a placement.
func (s Schedule) checkPlacement(stageRank []int32, shape graph.Shape) error {
	const advice = "(gpipe and model-parallel take any placement)"
	own := s.Placement(shape).First
	if len(stageRank) != len(own) && !s.MultiStage {
		return fmt.Errorf("%s cannot run %d stages on %d ranks: it needs %s per rank %s",
			s.Name, len(stageRank), shape.Ranks, describeStages(len(own)/shape.Ranks), advice)
	}
	for stage, r := range stageRank {
		switch {
		case r < 0 || int(r) >= shape.Ranks:
			return fmt.Errorf("placement of stage %d on rank %d: the ranks are 0 to %d", stage, r, shape.Ranks-1)
		case !s.MultiStage && r != own[stage] && s.place == nil:
			return fmt.Errorf("placement of stage %d on rank %d: %s needs stage s on rank s %s",
				stage, r, s.Name, advice)
		case !s.MultiStage && r != own[stage]:
			return fmt.Errorf("placement of stage %d on rank %d: %s needs it on rank %d %s",
				stage, r, s.Name, own[stage], advice)
		}
	}
	return nil
}

func describeStages(n int) string {
	if n == 1 {
		return "one stage"
	}
	return fmt.Sprintf("%d stages", n)
}

// Example returns a small shape that shows what the schedule does: 4 ranks, 8
// microbatches and, if it is made for several stages per rank, 2 of these, or the
// first similar shape that the schedule serves.
func (s Schedule) Example() graph.Shape {
	for _, virtual := range []int{2, 1, 4, 3} {
		for _, ranks := range []int{4, 2, 1} {
			for _, microbatches := range []int{8, 12, 4, 1} {
				shape := s.Sized(graph.Shape{Ranks: ranks, Virtual: virtual, Microbatches: microbatches})
				if s.Check(shape) == nil {
					return shape
				}
			}
		}
	}
	return graph.Shape{Ranks: 1, Virtual: 1, Microbatches: 1}
}

// tasksPerReplica returns a lower bound on the number of tasks: a forward and a
// backward for every stage and microbatch.
func tasksPerReplica(s graph.Shape) float64 {
	return 2 * float64(s.Ranks) * float64(max(1, s.Virtual)) * float64(s.Microbatches)
}

// byRank makes an order of a function that lists the actions of one rank.
func byRank(actions func(s graph.Shape, rank int) []order.Action) func(graph.Shape, []int32) order.Order {
	return func(s graph.Shape, _ []int32) order.Order {
		o := make(order.Order, s.Ranks)
		for r := range o {
			o[r] = actions(s, r)
		}
		return o
	}
}
