package wiring

import (
	"fmt"
)

// checkCopies reports a second placement that does not go with the first.
func (p *Pipeline) checkCopies() error {
	if p.Placement.Second != nil && len(p.Placement.Second) != p.Placement.Stages() {
		return fmt.Errorf("second copies of %d stages; there are %d", len(p.Placement.Second), p.Placement.Stages())
	}
	for s, r := range p.Placement.Second {
		switch {
		case r < 0 || int(r) >= p.Shape.Ranks:
			return fmt.Errorf("second copy on rank %d: the ranks are 0 to %d", r, p.Shape.Ranks-1)
		case r == p.Placement.First[s]:
			return fmt.Errorf("both copies of stage %d are on rank %d", s, r)
		}
	}
	return nil
}
