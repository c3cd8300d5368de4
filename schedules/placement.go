package schedules

import (
	"fmt"

	"psim/schedules/graph"
)

// checkPlacement reports a placement that the schedule cannot serve.
func (s Schedule) checkPlacement(stageRank []int32, shape graph.Shape) error {
	const advice = "(gpipe and model-parallel take any placement)"
	own := s.Placement(shape).First
	if len(stageRank) != len(own) && !s.MultiStage {
		return fmt.Errorf("%s cannot run %d stages on %d ranks: it needs %s per rank %s", s.Name, len(stageRank), shape.Ranks, stagesInWords(len(own)/shape.Ranks), advice)
	}
	for stage, r := range stageRank {
		switch {
		case r < 0 || int(r) >= shape.Ranks:
			return fmt.Errorf("placement of stage %d on rank %d: the ranks are 0 to %d", stage, r, shape.Ranks-1)
		case !s.MultiStage && r != own[stage] && s.place == nil:
			return fmt.Errorf("placement of stage %d on rank %d: %s needs stage s on rank s %s", stage, r, s.Name, advice)
		case !s.MultiStage && r != own[stage]:
			return fmt.Errorf("placement of stage %d on rank %d: %s needs it on rank %d %s", stage, r, s.Name, own[stage], advice)
		}
	}
	return nil
}

func stagesInWords(n int) string {
	if n == 1 {
		return "one stage"
	}
	return fmt.Sprintf("%d stages", n)
}
