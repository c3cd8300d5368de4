package schedules

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
)

// interleaved runs 1F1B over ranks that hold V stages each: chunk k of rank r is stage
// k·P + r. It divides the bubble by V and costs V times the messages (Narayanan et al.
// 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", section 2.2). A rank warms up with all but the last chunk of a round of R
// microbatches, and two forwards for each later rank. With one chunk it is 1F1B.
//
//	P = 2, V = 2:
//	rank 0: 0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3
//	rank 1: 1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3
func interleaved() Schedule {
	return Schedule{
		Name: "interleaved-1f1b", Summary: "1F1B over V stages per rank, in rounds of R=M/⌊M/P⌋",
		About: "Every rank holds V shorter pieces of the network, so that the pipeline fills and drains V " +
			"times as fast. The bubble shrinks by V; messages grow by V, and memory a little. For fast " +
			"links.",
		Bubble: "(P-1)/(MV+P-1), M>=P", Memory: "min((V-1)R+2(P-1-r)+1, MV), V>1",
		Paper:      "Narayanan et al. 2021, Megatron-LM",
		Constraint: "⌊M/P⌋ divides M, or group", Pipelined: true, Virtual: true, Grouped: true, Single: "1f1b",
		order: alternatingOrder(interleavedWarmUp, nil), place: loopedStages, legal: requireRounds,
	}
}

// interleavedWarmUp counts the forwards before the first backward: two for every later
// rank, or one if a rank has a single chunk.
func interleavedWarmUp(s graph.Shape, rank int) int {
	if s.Virtual <= 1 {
		return warmUpPerRank(1)(s, rank)
	}
	return (s.Virtual-1)*roundSize(s) + warmUpPerRank(2)(s, rank)
}

// interleavedZeroBubble splits the backwards of the interleaved schedule: input
// gradients do not wait for weight gradients, so that half the warm-up per rank is
// enough, and rank r delays every weight gradient by r input gradients (Qi et al. 2023,
// ZB-H1, over several stages per rank as in PyTorch's ScheduleInterleavedZeroBubble).
//
//	P = 2, V = 2:
//	rank 0: 0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 …
//	rank 1: 1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 …
func interleavedZeroBubble() Schedule {
	return Schedule{
		Name: "interleaved-zero-bubble", Summary: "zb-h1 over V stages per rank, in such rounds",
		About: "The two ideas together: several stages per rank, and weight gradients in the gaps. The " +
			"bubble of zb-h1 divided by V, for more messages.",
		Bubble: "(P-1)(F+I-W)/T, P|M", Memory: "min((V-1)R+P, MV)", Paper: "Qi et al. 2023; PyTorch",
		Constraint: "⌊M/P⌋ divides M", Pipelined: true, Virtual: true, Single: "zb-h1",
		order: alternatingOrder(zeroBubbleWarmUp, delayPerRank(1)), place: loopedStages, legal: requireRounds,
	}
}

func zeroBubbleWarmUp(s graph.Shape, rank int) int {
	return (max(1, s.Virtual)-1)*roundSize(s) + warmUpPerRank(1)(s, rank)
}

// loopedStages places stage s on rank s mod P: chunk k of rank r is k·P + r.
func loopedStages(s graph.Shape) graph.Placement {
	stageRank := make([]int32, s.Stages())
	for stage := range stageRank {
		stageRank[stage] = int32(stage % s.Ranks)
	}
	return graph.Placement{First: stageRank}
}

// requireRounds refuses microbatches that cannot go in rounds. PyTorch demands
// M/P rounds, rounded down, of equal size. A group, which is Megatron-LM's
// microbatch-group-size-per-virtual-pipeline-stage, may leave a smaller last round,
// as long as that has a microbatch for every rank.
func requireRounds(s graph.Shape) error {
	m, rounds := s.Microbatches, max(1, s.Microbatches/s.Ranks)
	switch {
	case s.Group != 0 && s.Virtual <= 1:
		return fmt.Errorf("group = %d: the microbatches of a group pass through a rank's chunks together; "+
			"with virtual_stages = 1 there is nothing to group", s.Group)
	case s.Group == 0 && (s.Virtual <= 1 || m%rounds == 0):
		return nil
	case s.Group == 0:
		return fmt.Errorf("microbatches = %d: over %d ranks they must go in %d rounds of equal size; "+
			"the nearest numbers that do are %s", m, s.Ranks, rounds, nearestRounds(s))
	case m < s.Ranks:
		return fmt.Errorf("group = %d: a group needs a microbatch for each of the %d ranks, and there are only %d; "+
			"remove group", s.Group, s.Ranks, m)
	case s.Group < s.Ranks || s.Group > m:
		return fmt.Errorf("group = %d: must be from stages = %d to microbatches = %d", s.Group, s.Ranks, m)
	case !legalGroup(s, s.Group):
		return fmt.Errorf("group = %d: of %d microbatches the last group would have %d, fewer than the %d ranks; "+
			"use one of %s", s.Group, m, m%s.Group, s.Ranks, legalGroups(s))
	}
	return nil
}

// legalGroup reports whether every group of this size, the last included, has a
// microbatch for every rank.
func legalGroup(s graph.Shape, group int) bool {
	last := s.Microbatches % group
	return last == 0 || last >= s.Ranks
}

// nearestRounds names the legal numbers of microbatches next to M.
func nearestRounds(s graph.Shape) string {
	legal := func(m int) bool { return m%max(1, m/s.Ranks) == 0 }
	below, above := s.Microbatches-1, s.Microbatches+1
	for !legal(below) {
		below--
	}
	for !legal(above) {
		above++
	}
	return fmt.Sprintf("%d and %d", below, above)
}

// legalGroups lists the first few legal sizes of a group.
func legalGroups(s graph.Shape) string {
	const most = 8
	var legal []string
	for n := s.Ranks; n <= s.Microbatches && len(legal) < most; n++ {
		if legalGroup(s, n) {
			legal = append(legal, fmt.Sprint(n))
		}
	}
	if len(legal) == most {
		legal = append(legal, "…")
	}
	return strings.Join(legal, ", ")
}
