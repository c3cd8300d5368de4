package order

import (
	"fmt"

	"psim/schedules/graph"
)

// Placement reads off the actions where the stages are, messages aside: each on
// one rank, or each on two, one for each half of the microbatches. Stages must be
// numbered from 0 without gaps; an action of a second rank is an *Error.
func (o Order) Placement() (graph.Placement, error) {
	one, first, second := rankOf{}, rankOf{}, rankOf{}
	half := graph.TwoCopies(nil, nil, o.Microbatches()).Half
	var conflict error
	two := o.Microbatches()%2 == 0
	for r, actions := range o {
		for i, a := range actions {
			switch {
			case sends(a.Kind) || receives(a.Kind):
				continue
			case a.Stage < 0:
				return graph.Placement{}, fmt.Errorf("rank %d has stage %d: the stages must be numbered from 0", r, a.Stage)
			case !one.put(a.Stage, r) && conflict == nil:
				problem := fmt.Sprintf("stage %d is on rank %d and on rank %d; a stage is on one rank, or all are on two, one for each half of the microbatches", a.Stage, one[a.Stage], r)
				conflict = &Error{Rank: r, Index: i, Problem: problem, Order: o}
			}
			switch {
			case !a.Kind.Compute() || a.Microbatch < 0:
			case a.Microbatch < half:
				two = first.put(a.Stage, r) && two
			default:
				two = second.put(a.Stage, r) && two
			}
		}
	}
	stages, err := one.list()
	if conflict == nil {
		return graph.Placement{First: stages}, err
	}
	if err != nil || !two || len(first) != len(one) || !inPairs(first, second) {
		return graph.Placement{}, conflict
	}
	p := graph.Placement{Half: half}
	p.First, _ = first.list()
	p.Second, _ = second.list()
	return p, nil
}

// rankOf holds the rank of every stage that was met.
type rankOf map[int32]int32

// put notes the rank of a stage; false if it has another.
func (m rankOf) put(stage int32, r int) bool {
	if was, seen := m[stage]; seen {
		return was == int32(r)
	}
	m[stage] = int32(r)
	return true
}

// list puts the ranks in the order of the stages, if none is missing.
func (m rankOf) list() ([]int32, error) {
	highest := int32(-1)
	for s := range m {
		highest = max(highest, s)
	}
	for s := range highest {
		if _, ok := m[s]; !ok {
			return nil, fmt.Errorf("stage %d is missing: the stages must be numbered 0 to %d", s, highest)
		}
	}
	ranks := make([]int32, highest+1)
	for s, r := range m {
		ranks[s] = r
	}
	return ranks, nil
}

// inPairs reports whether every stage is on two ranks, which share all stages that
// either of them has.
func inPairs(first, second rankOf) bool {
	partner := rankOf{}
	for s, a := range first {
		b, ok := second[s]
		if !ok || a == b || !partner.put(a, int(b)) || !partner.put(b, int(a)) {
			return false
		}
	}
	return true
}
