package ordertest

import (
	"slices"

	"pgregory.net/rapid"

	"psim/schedules/wiring"
)

// DrawExperts gives some stages of a pipeline all-to-alls, over any number of its
// replicas, and some of what it sums and gathers to experts.
func DrawExperts(t *rapid.T, p *wiring.Pipeline) {
	stages := max(p.Placement.Stages(), len(p.Boundaries)+1)
	p.ExpertSpan = rapid.SampledFrom(divisors(max(1, p.Shape.Replicas))).Draw(t, "span")
	p.Exchanges = make([]wiring.Exchanges, stages)
	bytes := rapid.Int64Range(0, 50)
	s := &p.Sync
	collectives := s.Buckets
	if s.Units != nil {
		collectives = nil
	}
	for _, u := range s.Units {
		longer := u.Gather
		if len(u.Scatter) > len(longer) {
			longer = u.Scatter
		}
		collectives = append(collectives, longer)
	}
	s.Experts, s.AheadExperts, s.ParameterExperts = marks(t, collectives), marks(t, s.Ahead), marks(t, s.Parameters)
	for i := range p.Exchanges {
		e, n := &p.Exchanges[i], rapid.IntRange(0, 3).Draw(t, "all-to-alls")
		if n == 0 {
			continue
		}
		e.Forward = rapid.SliceOfN(bytes, n, n).Draw(t, "forward")
		e.Backward = rapid.SliceOfN(bytes, n, 2*n).Draw(t, "backward")
		if s.Buckets != nil {
			e.Leaves = ascending(t, len(s.Buckets[i]), len(e.Backward))
		}
		if s.Units != nil {
			e.Leaves = ascending(t, len(s.Units[i].Scatter), len(e.Backward))
		}
		if s.Ahead != nil {
			e.Awaits = ascending(t, n+1, len(s.Ahead[i]))
		}
	}
}

// marks draws a mark for every element; it returns nil without elements.
func marks(t *rapid.T, of [][]int64) [][]bool {
	var list [][]bool
	for _, each := range of {
		list = append(list, rapid.SliceOfN(rapid.Bool(), len(each), len(each)).Draw(t, "experts"))
	}
	return list
}

// ascending draws n numbers up to a largest one, in ascending order.
func ascending(t *rapid.T, n, largest int) []int {
	list := rapid.SliceOfN(rapid.IntRange(0, largest), n, n).Draw(t, "ascending")
	slices.Sort(list)
	return list
}

func divisors(n int) (list []int) {
	for d := 1; d <= n; d++ {
		if n%d == 0 {
			list = append(list, d)
		}
	}
	return list
}
