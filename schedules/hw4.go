package schedules

// hw4 runs the pipeline of CMU's course 11-868, assignment 4, as PyTorch really
// does: the forwards overlap by clock cycles, as in torchgpipe, but autograd
// issues the backwards from one queue, in exactly the reverse order, and copies
// between devices block, so that backwards run one at a time.
//
//	rank 0   F0 F1 F2 F3 ·  ·  ·  B3 ·  B2 ·  B1 B0
//	rank 1   ·  F0 F1 F2 F3 B3 B2 ·  B1 ·  B0 ·  ·    (B as long as F)
//
// A rank may hold several stages, as the course's placement of GPT-2 does.
func hw4() Schedule {
	return Schedule{
		Name: "hw4", Summary: "forwards by clock cycles, backwards one at a time, as the CMU course's runs",
		About: "The pipeline of CMU's course as PyTorch runs it: forwards of different microbatches overlap, " +
			"and then autograd goes through one backward at a time. Use it to predict such a program, and " +
			"to see what it gives away.",
		Bubble: "1-M(F+B)/((M+P-1)F+MPB)", Memory: "M", Paper: "CMU 11-868; Kim et al. 2020, torchgpipe",
		MultiStage: true, Pipelined: true, SerialBackward: true, order: byClockCycle,
	}
}
