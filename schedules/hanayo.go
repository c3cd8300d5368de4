package schedules

import (
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// hanayo sends every microbatch down the ranks and up again, W times. A wave is
// a V of 2P stages (see vShape), and each wave begins where the one before ended, so
// that every rank holds V = 2W stages and no stage exists twice (Liu et al. 2023,
// "Hanayo", section 3). The paper derives a wave from Chimera by swapping ranks r and
// P − 1 − r for half of every microbatch's way, and so does this order: microbatches
// follow each other two slots apart, and a stage takes one slot. Downward passes run in
// even slots and upward passes in odd ones, or the other way round, so that they never
// collide. As in Chimera, units of P microbatches follow each other directly (Li &
// Hoefler 2021, section 3.5). With P = 2, W = 1 and M = 2 (stages 2 and 3 in lower case,
// microbatches omitted, B as long as F):
//
//	rank 0   F · F f b f b B · B
//	rank 1   · F f F f b B b B ·
//
// With V = 2W stages per rank, P dividing M and no latency, a step takes
// MV(F+B) + 2(P−1)(max(F,B) + (M/P−1)|F−B|): units follow without a gap only if F = B.
func hanayo() Schedule {
	return Schedule{
		Name: "hanayo", Summary: "V/2 waves down the ranks and up again; chimera's slots, no stage twice",
		About: "Stages go down the ranks and up again, V/2 times, so that both directions of Chimera are one " +
			"pipeline: its bubble, and less with more waves, without a second copy of any stage. Messages " +
			"grow by V.",
		Bubble: "(P-1)/(MV+P-1), F=B, P|M", Memory: "min((V-1)Q+1+r, VQ), Q=min(M, P)",
		Paper:      "Liu et al. 2023, Hanayo",
		Constraint: "V even: 2 stages per rank for each wave", Pipelined: true, Virtual: true, PerRank: 2,
		place: waves, legal: requireWholeWaves,
		order: func(s graph.Shape, stageRank []int32) order.Order {
			return bySlot(s, graph.Placement{First: stageRank}, s.Ranks)
		},
	}
}

// waves places stages down the ranks and up again, once for every wave. With
// P = 2 and two waves:
//
//	rank 0   0 3 4 7
//	rank 1   1 2 5 6
func waves(s graph.Shape) graph.Placement {
	var stageRank []int32
	for range max(1, s.Virtual/2) {
		stageRank = append(stageRank, vShape(s).First...)
	}
	return graph.Placement{First: stageRank}
}

// wholeWaves demands an even number of stages per rank.
func requireWholeWaves(s graph.Shape) error {
	if s.Virtual%2 != 0 {
		return fmt.Errorf("virtual_stages = %d: a wave of hanayo goes down the ranks and up again, "+
			"so it takes 2 per wave; %s", s.Virtual, nextEven(s.Virtual))
	}
	return nil
}
