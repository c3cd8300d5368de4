package wiring

import (
	"fmt"

	"psim/schedules/graph"
)

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

// rankOf is the rank of a stage for a microbatch.
func (p *Pipeline) rankOf(stage, microbatch int32) int32 {
	return graph.RankOf(p.StageRank, p.SecondRank, stage, microbatch, p.Shape.Microbatches)
}

// copyOf is CopyOf before there is a graph.
func (p *Pipeline) copyOf(stage, microbatch int32) int {
	return graph.CopyOf(p.SecondRank, stage, microbatch, p.Shape.Microbatches)
}
