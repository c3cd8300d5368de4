package order

import (
	"fmt"

	"psim/schedules/graph"
)

// Placement returns the rank of every stage, as the actions show it: each stage on one
// rank, or each on two, one for each half of the microbatches. Messages do not count.
// Stages must be numbered from 0 without gaps. If a stage is on other ranks, the error
// is an *Error.
func (o Order) Placement() (graph.Placement, error) {
	one, first, second := stageRanks{}, stageRanks{}, stageRanks{}
	half := graph.TwoCopies(nil, nil, o.Microbatches()).Half
	var conflict error
	two := o.Microbatches()%2 == 0
	for r, actions := range o {
		for i, a := range actions {
			switch {
			case isSend(a.Kind) || isReceive(a.Kind):
				continue
			case a.Stage < 0:
				err := fmt.Errorf("rank %d has stage %d: the stages must be numbered from 0", r, a.Stage)
				return graph.Placement{}, err
			case !one.put(a.Stage, r) && conflict == nil:
				problem := fmt.Sprintf("stage %d is on rank %d and on rank %d; a stage is on one rank, "+
					"or all are on two, one for each half of the microbatches", a.Stage, one[a.Stage], r)
				conflict = &Error{Rank: r, Index: i, Problem: problem, Order: o}
			}
			switch {
			case !a.Kind.Pass() || a.Microbatch < 0:
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
	if err != nil || !two || len(first) != len(one) || !ranksArePaired(first, second) {
		return graph.Placement{}, conflict
	}
	p := graph.Placement{Half: half}
	p.First, _ = first.list()
	p.Second, _ = second.list()
	return p, nil
}

// stageRanks holds the rank of every stage that has been seen.
type stageRanks map[int32]int32

// put notes the rank of a stage; false if the stage already has another rank.
func (m stageRanks) put(stage int32, r int) bool {
	if was, seen := m[stage]; seen {
		return was == int32(r)
	}
	m[stage] = int32(r)
	return true
}

// list returns the ranks in the order of the stages, or an error if a stage is missing.
func (m stageRanks) list() ([]int32, error) {
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

// ranksArePaired reports whether every stage is on two ranks, and both hold the same
// stages.
func ranksArePaired(first, second stageRanks) bool {
	partner := stageRanks{}
	for s, a := range first {
		b, ok := second[s]
		if !ok || a == b || !partner.put(a, int(b)) || !partner.put(b, int(a)) {
			return false
		}
	}
	return true
}
