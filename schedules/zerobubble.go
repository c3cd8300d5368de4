package schedules

// zbH1 splits the backwards of 1F1B (Qi et al. 2023, "Zero Bubble Pipeline
// Parallelism", section 2.1, figure 2): every rank warms up as in 1F1B, and
// rank r runs every weight gradient r input gradients late, so that all ranks
// hold P microbatches at most, as rank 0 of 1F1B does.
//
//	rank 0: F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
//	rank 1: F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//	rank 2: F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
func zbH1() Schedule {
	return Schedule{
		Name: "zb-h1", Summary: "1F1B with I and W in place of B, W up to r steps late",
		About: "The backward is cut in two: the input gradient, for which the rank before waits, and the " +
			"weight gradient, which nobody waits for and which fills gaps. A third of 1F1B's bubble where " +
			"F, I and W are equal, with the memory of 1F1B's first rank on all.",
		Bubble: "(P-1)(F+I-W)/T, M>=P", Memory: "min(M, P)", Paper: "Qi et al. 2023, Zero Bubble",
		Pipelined: true, order: inTurn(ahead(1), behind(1)),
	}
}

// zbH2 doubles ZB-H1's warm-up and lateness, and with them the memory, so that
// the ramp at the start is filled with forwards and the one at the end with
// weight gradients (Qi et al. 2023, section 2.2, figure 3). If F = I = W, no
// rank is idle between its first action and its last.
//
//	rank 0: F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 …
//	rank 1: F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 …
//	rank 2: F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 …
func zbH2() Schedule {
	return Schedule{
		Name: "zb-h2", Summary: "twice zb-h1's warm-up, for no bubble in a rank's own span",
		About: "With about twice the memory of zb-h1, enough forwards come first that a rank, once begun, " +
			"never waits if times are equal. What remains are the ramps, which steps that follow each " +
			"other can overlap if the optimizer does not make all ranks wait.",
		Bubble: "max(0, (P-1)(F+I-2W))/T of span, M>=2P-1", Memory: "min(M, 2P-1)", Paper: "Qi et al. 2023, Zero Bubble",
		Pipelined: true, order: inTurn(ahead(2), behind(2)),
	}
}
