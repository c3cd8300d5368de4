package psim

import (
	"fmt"

	"psim/reports"
)

// Boundaries lists what passes between neighbouring stages: shapes, and the bytes of
// the graph's messages. A configuration without [model] knows no shapes.
func (p *Prediction) Boundaries() ([]reports.Boundary, error) {
	if p.Plan.Workload == nil {
		return nil, fmt.Errorf("%s has no [model], whose stages would have boundaries", p.Config.Name())
	}
	list := []reports.Boundary{}
	for _, c := range p.Plan.Workload.Crossings() {
		b := reports.Boundary{
			From: c.From, To: c.To, Shape: c.Shape, Bytes: c.Bytes, Direction: reports.ForwardDirection,
			FromRank: int(c.FromRank), ToRank: int(c.ToRank), Microbatches: len(c.Microbatches),
		}
		if c.Backward() {
			b.Direction = reports.BackwardDirection
		}
		if c.Parts > 1 {
			b.Parts = c.Parts
		}
		list = append(list, b)
	}
	return list, nil
}
