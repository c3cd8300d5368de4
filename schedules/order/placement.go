package order

import (
	"fmt"

	"psim/schedules/graph"
)

// Placement reads off the actions where the stages are, messages aside: each on
// one rank, or each on two, one for each half of the microbatches. Stages must be
// numbered from 0 without gaps; an action of a second rank is an *Error.
func (o Order) Placement() (graph.Placement, error) {
	p := graph.TwoCopies(nil, nil, o.Microbatches())
	rankOf := map[int32]int32{}          // of every stage, as first met
	halves := [2]map[int32]int32{{}, {}} // the same for the halves of the microbatches
	two := o.Microbatches()%2 == 0
	var conflict error
	for r, actions := range o {
		for i, a := range actions {
			if sends(a.Kind) || receives(a.Kind) {
				continue
			}
			if a.Stage < 0 {
				return graph.Placement{}, fmt.Errorf("rank %d has stage %d: the stages must be numbered from 0", r, a.Stage)
			}
			if was := meet(rankOf, a.Stage, r); was != int32(r) && conflict == nil {
				problem := fmt.Sprintf("stage %d is on rank %d and on rank %d; a stage is on one rank, or all are on two, one for each half of the microbatches", a.Stage, was, r)
				conflict = &Error{Rank: r, Index: i, Problem: problem, Order: o}
			}
			if a.Kind.Compute() && a.Microbatch >= 0 {
				half := halves[0]
				if a.Microbatch >= p.Half {
					half = halves[1]
				}
				two = two && meet(half, a.Stage, r) == int32(r)
			}
		}
	}
	var err error
	switch p.First, err = list(rankOf); {
	case conflict == nil:
		return graph.Placement{First: p.First}, err
	case err != nil || !two || len(halves[0]) != len(rankOf) || len(halves[1]) != len(rankOf):
		return graph.Placement{}, conflict
	}
	p.First, _ = list(halves[0])
	p.Second, _ = list(halves[1])
	if !paired(p) {
		return graph.Placement{}, conflict
	}
	return p, nil
}

// meet notes the rank of a stage, and returns the first that was noted.
func meet(rankOf map[int32]int32, stage int32, r int) int32 {
	if was, seen := rankOf[stage]; seen {
		return was
	}
	rankOf[stage] = int32(r)
	return int32(r)
}

// list is the rank of every stage, in order, if none is missing.
func list(rankOf map[int32]int32) ([]int32, error) {
	highest := int32(-1)
	for s := range rankOf {
		highest = max(highest, s)
	}
	for s := range highest {
		if _, ok := rankOf[s]; !ok {
			return nil, fmt.Errorf("stage %d is missing: the stages must be numbered 0 to %d", s, highest)
		}
	}
	stages := make([]int32, highest+1)
	for s, r := range rankOf {
		stages[s] = r
	}
	return stages, nil
}

// paired reports whether the two ranks of every stage share all stages that
// either of them has.
func paired(p graph.Placement) bool {
	partner := map[int32]int32{}
	for s, a := range p.First {
		b := p.Second[s]
		if a == b || meet(partner, a, int(b)) != b || meet(partner, b, int(a)) != a {
			return false
		}
	}
	return true
}
