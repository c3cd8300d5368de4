package schedules

// modelParallel takes one microbatch after another through all stages and
// back, so that one rank works at a time: naive model parallelism. A rank may
// hold several stages.
func modelParallel(s Shape, stageRank []int32) Order {
	order := make(Order, s.Ranks)
	for m := range int32(s.Microbatches) {
		for stage, r := range stageRank {
			order[r] = append(order[r], Action{Kind: Forward, Stage: int32(stage), Microbatch: m})
		}
		for stage := len(stageRank) - 1; stage >= 0; stage-- {
			r := stageRank[stage]
			order[r] = append(order[r], Action{Kind: Backward, Stage: int32(stage), Microbatch: m})
		}
	}
	return order
}
