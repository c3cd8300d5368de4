package psim

import (
	"fmt"

	"psim/results"
)

// Boundaries lists what passes between neighbouring stages: shapes, and the bytes of
// the graph's messages. A configuration without [model] knows no shapes.
func (p *Prediction) Boundaries() ([]results.Boundary, error) {
	if p.Plan.Workload == nil {
		return nil, fmt.Errorf("%s has no [model], whose stages would have boundaries", p.Config.Name())
	}
	list := []results.Boundary{}
	for _, c := range p.Plan.Workload.Crossings() {
		b := results.Boundary{
			From: c.From, To: c.To, Shape: c.Shape, Bytes: c.Bytes, Direction: results.ForwardDirection,
			FromRank: int(c.FromRank), ToRank: int(c.ToRank), Microbatches: len(c.Microbatches),
		}
		if c.Backward() {
			b.Direction = results.BackwardDirection
		}
		if c.Parts > 1 {
			b.Parts = c.Parts
		}
		list = append(list, b)
	}
	return list, nil
}
