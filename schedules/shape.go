package schedules

import "psim/schedules/graph"

// Example is a small shape that shows what the schedule does: 4 ranks, 8
// microbatches and 2 stages per rank if it is made for several, or the next
// shape that it serves.
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

// tasksPerReplica bounds the number of tasks from below: a forward and a
// backward for every stage and microbatch.
func tasksPerReplica(s graph.Shape) float64 {
	return 2 * float64(s.Ranks) * float64(max(1, s.Virtual)) * float64(s.Microbatches)
}
