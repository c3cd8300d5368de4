package schedules

// oneForwardOneBackward warms up with P − 1 − r forwards on rank r, then runs
// one forward and one backward in turn (Narayanan et al. 2019 and 2021, the
// flushed variant). Its bubble is GPipe's; its memory is bounded by P, not M.
//
//	rank 0: F0 F1 F2 B0 F3 B1 F4 B2 B3 B4
//	rank 1: F0 F1 B0 F2 B1 F3 B2 F4 B3 B4
//	rank 2: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
func oneForwardOneBackward() Schedule {
	return Schedule{
		Name: "1f1b", Summary: "a warm-up, then one forward and one backward in turn",
		About: "A rank starts backwards as soon as one can run, and from then on alternates with forwards. " +
			"The bubble is GPipe's, but rank r holds at most P-r microbatches, so M can grow: the usual " +
			"choice.",
		Bubble: "(P-1)/(M+P-1)", Memory: "min(M, P-r)", Paper: "Narayanan et al. 2021, PipeDream-flush",
		Pipelined: true, order: inTurn(ahead(1), nil),
	}
}
