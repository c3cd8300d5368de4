package order

import "psim/schedules/graph"

// places is where an order has its stages: the rank of every one, and that of
// its second copy where it has two (see rankOf).
type places struct {
	First, Second []int32
	microbatches  int
}

// rank is where a stage is for a microbatch.
func (p places) Rank(stage, microbatch int32) int32 {
	return graph.RankOf(p.First, p.Second, stage, microbatch, p.microbatches)
}

// places reads off the actions where the stages are: each on one rank, or all
// with two copies.
func (o Order) Places() (places, error) {
	first, err := o.Stages()
	if err == nil {
		return places{First: first, microbatches: o.Microbatches()}, nil
	}
	if p, ok := o.copies(); ok {
		return p, nil
	}
	return places{}, err
}

// copies reads off the actions where the two copies of all stages are. It is
// false where there are not two of each, the first for the first half of the
// microbatches and the second for the others, on ranks that go in pairs.
func (o Order) copies() (places, bool) {
	p, most := places{microbatches: o.Microbatches()}, o.Actions()
	for r, actions := range o {
		for _, a := range actions {
			if !a.Kind.Compute() || a.Microbatch < 0 {
				continue
			}
			half := &p.First
			if 2*int(a.Microbatch) >= p.microbatches {
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
	return p, p.microbatches%2 == 0 && p.paired()
}

// paired reports whether every stage is on two ranks, which share all stages
// that either of them has.
func (p places) paired() bool {
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
