package schedules

// oneForwardOneBackward warms up with P − r forwards on rank r, then runs one
// backward and one forward in turn (Narayanan et al. 2019 and 2021, the
// flushed variant). With fewer microbatches than that, the warm-up is all of
// them. Its bubble is GPipe's; its memory is bounded by P, not M.
func oneForwardOneBackward(s Shape, _ []int32) Order {
	order := make(Order, s.Ranks)
	for r := range order {
		warmUp := min(s.Microbatches, s.Ranks-r)
		actions := appendAll(make([]Action, 0, 2*s.Microbatches), Forward, r, warmUp)
		for m := range s.Microbatches {
			actions = append(actions, Action{Backward, int32(r), int32(m)})
			if next := warmUp + m; next < s.Microbatches {
				actions = append(actions, Action{Forward, int32(r), int32(next)})
			}
		}
		order[r] = actions
	}
	return order
}
