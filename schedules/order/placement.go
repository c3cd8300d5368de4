package order

import (
	"fmt"

	"psim/schedules/graph"
)

// Placement reads off the actions where the stages are, messages aside: each on
// one rank, or all on two. Stages must be numbered from 0 without gaps; an action
// of a second rank is an *Error.
func (o Order) Placement() (graph.Placement, error) {
	first, err := o.onePlacement()
	if err == nil {
		return graph.Placement{First: first}, nil
	}
	if p, ok := o.twoPlacements(); ok {
		return p, nil
	}
	return graph.Placement{}, err
}

// onePlacement is the rank of every stage, if each is on one.
func (o Order) onePlacement() ([]int32, error) {
	rankOf := map[int32]int32{}
	highest := int32(-1)
	for r, actions := range o {
		for i, a := range actions {
			if sends(a.Kind) || receives(a.Kind) {
				continue
			}
			if a.Stage < 0 {
				return nil, fmt.Errorf("rank %d has stage %d: the stages must be numbered from 0", r, a.Stage)
			}
			if was, seen := rankOf[a.Stage]; seen && was != int32(r) {
				problem := fmt.Sprintf("stage %d is on rank %d and on rank %d; a stage is on one rank, or all are on two, one for each half of the microbatches", a.Stage, was, r)
				return nil, &Error{Rank: r, Index: i, Problem: problem, Order: o}
			}
			rankOf[a.Stage] = int32(r)
			highest = max(highest, a.Stage)
		}
	}
	if len(rankOf) != int(highest)+1 {
		for s := range highest {
			if _, ok := rankOf[s]; !ok {
				return nil, fmt.Errorf("stage %d is missing: the stages must be numbered 0 to %d", s, highest)
			}
		}
	}
	stages := make([]int32, highest+1)
	for s, r := range rankOf {
		stages[s] = r
	}
	return stages, nil
}

// twoPlacements is where the two copies of all stages are. It is false where
// there are not two of each, the first for the first half of the microbatches and
// the second for the others, on ranks that go in pairs.
func (o Order) twoPlacements() (graph.Placement, bool) {
	microbatches, most := o.Microbatches(), o.Actions()
	p := graph.TwoCopies(nil, nil, microbatches)
	for r, actions := range o {
		for _, a := range actions {
			if !a.Kind.Compute() || a.Microbatch < 0 {
				continue
			}
			half := &p.First
			if a.Microbatch >= p.Half {
				half = &p.Second
			}
			if a.Stage < 0 || int(a.Stage) >= most {
				return p, false
			}
			for int(a.Stage) >= len(*half) {
				*half = append(*half, graph.None)
			}
			if was := (*half)[a.Stage]; was != graph.None && was != int32(r) {
				return p, false
			}
			(*half)[a.Stage] = int32(r)
		}
	}
	return p, microbatches%2 == 0 && paired(p)
}

// paired reports whether every stage is on two ranks, which share all stages
// that either of them has.
func paired(p graph.Placement) bool {
	if len(p.First) != len(p.Second) {
		return false
	}
	partner := map[int32]int32{}
	for s, a := range p.First {
		b := p.Second[s]
		if a == graph.None || b == graph.None || a == b {
			return false
		}
		for _, pair := range [][2]int32{{a, b}, {b, a}} {
			if was, seen := partner[pair[0]]; seen && was != pair[1] {
				return false
			}
			partner[pair[0]] = pair[1]
		}
	}
	return true
}
