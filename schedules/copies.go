package schedules

import "fmt"

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
func rankOf(first, second []int32, stage, microbatch int32, microbatches int) int32 {
	if second != nil && 2*int(microbatch) >= microbatches {
		return second[stage]
	}
	return first[stage]
}

// RankOf is the rank of a stage for a microbatch, in the first replica.
func (g *Graph) RankOf(stage, microbatch int32) int32 {
	return rankOf(g.StageRank, g.SecondRank, stage, microbatch, g.Shape.Microbatches)
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
	return copyOf(g.SecondRank, stage, microbatch, g.Shape.Microbatches)
}

func copyOf(second []int32, stage, microbatch int32, microbatches int) int {
	if second != nil && 2*int(microbatch) >= microbatches {
		return len(second) + int(stage)
	}
	return int(stage)
}

// rankOf is the rank of a stage for a microbatch.
func (p *Pipeline) rankOf(stage, microbatch int32) int32 {
	return rankOf(p.StageRank, p.SecondRank, stage, microbatch, p.Shape.Microbatches)
}

// copyOf is CopyOf before there is a graph.
func (p *Pipeline) copyOf(stage, microbatch int32) int {
	return copyOf(p.SecondRank, stage, microbatch, p.Shape.Microbatches)
}

// checkCopies reports a second placement that does not go with the first.
func (p *Pipeline) checkCopies() error {
	if p.SecondRank != nil && len(p.SecondRank) != len(p.StageRank) {
		return fmt.Errorf("second copies of %d stages; there are %d", len(p.SecondRank), len(p.StageRank))
	}
	for s, r := range p.SecondRank {
		switch {
		case r < 0 || int(r) >= p.Shape.Ranks:
			return fmt.Errorf("second copy on rank %d: the ranks are 0 to %d", r, p.Shape.Ranks-1)
		case r == p.StageRank[s]:
			return fmt.Errorf("both copies of stage %d are on rank %d", s, r)
		}
	}
	return nil
}

// upwards places stage s on rank P − 1 − s: the second copy.
func upwards(s Shape) []int32 {
	ranks := make([]int32, s.Ranks)
	for stage := range ranks {
		ranks[stage] = int32(s.Ranks - 1 - stage)
	}
	return ranks
}
