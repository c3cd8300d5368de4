package graph

// Some schedules hold every stage twice, and send the two halves of the
// microbatches through the ranks in opposite directions: DualPipe and Chimera.
// Stages keep their numbers; which copy an action runs on follows from its
// microbatch. The first half runs on the first copy, on StageRank, the other on
// the second, on SecondRank:
//
//	rank 0   0F0 ·   ·   3F1        microbatch 0 goes down the ranks,
//	rank 1   ·   1F0 2F1 ·          microbatch 1 comes up
//	rank 2   ·   1F1 2F0 ·
//	rank 3   0F1 ·   ·   3F0
//
// At the end of a step the two copies' gradients are summed: a Tied for every
// pair of ranks.

// rankOf is the rank of a stage for a microbatch.
func RankOf(first, second []int32, stage, microbatch int32, microbatches int) int32 {
	if second != nil && 2*int(microbatch) >= microbatches {
		return second[stage]
	}
	return first[stage]
}

// RankOf is the rank of a stage for a microbatch, in the first replica.
func (g *Graph) RankOf(stage, microbatch int32) int32 {
	return RankOf(g.StageRank, g.SecondRank, stage, microbatch, g.Shape.Microbatches)
}

// Holds reports whether a pipeline rank has a copy of a stage.
func (g *Graph) Holds(rank, stage int32) bool {
	return g.StageRank[stage] == rank || g.SecondRank != nil && g.SecondRank[stage] == rank
}

// Homes names where every stage is: its rank, or of two copies the lower one.
// Stages with the same home share all their ranks, as copies go in pairs.
func Homes(first, second []int32) []int32 {
	if second == nil {
		return first
	}
	homes := make([]int32, len(first))
	for s := range homes {
		homes[s] = min(first[s], second[s])
	}
	return homes
}

// CopyOf numbers the copies of all stages, first copies first: the one of a stage
// that a microbatch runs on.
func (g *Graph) CopyOf(stage, microbatch int32) int {
	return CopyOf(g.SecondRank, stage, microbatch, g.Shape.Microbatches)
}

func CopyOf(second []int32, stage, microbatch int32, microbatches int) int {
	if second != nil && 2*int(microbatch) >= microbatches {
		return len(second) + int(stage)
	}
	return int(stage)
}
