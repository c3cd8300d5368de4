package plans

import (
	"iter"
	"slices"
)

// ends is the number of dimensions whose legal values do not depend on each other: recomputation, ZeRO and sequence
// parallelism, the last ones.
const ends = 3

// A stem stands for the plans of a space that differ only in these dimensions: one for every combination of their
// values. A space has millions of plans, and a shard keeps few of them.
type stem struct {
	Plan
	ends *[ends][]string // values; most stems share them with the stem before
}

// addStem adds the plans that begin as one does.
func (s *Space) addStem(p *Plan) {
	one, count := stem{Plan: *p, ends: s.lastEnds}, 1
	for e := range ends {
		i := len(s.dimensions) - ends + e
		d := &s.dimensions[i]
		values, legal := s.valuesOf(p, d.key, d.values(s, p)), s.legal[:0]
		for _, v := range values {
			if assign(d.at(p), v) == nil && d.legal(s, p) {
				legal = append(legal, v)
			}
		}
		if s.legal = legal; len(legal) == 0 {
			s.noteDeadEnd(i, values, p)
			return
		}
		if one.ends == nil || !slices.Equal(legal, one.ends[e]) {
			own := [ends][]string{}
			if one.ends != nil {
				own = *one.ends
			}
			own[e], one.ends = slices.Clone(legal), &own
		}
		assign(d.at(p), legal[0])
		count *= len(legal)
	}
	one.space, s.lastEnds = s, one.ends
	s.notePlacement(&one.Plan)
	s.stems, s.count = append(s.stems, one), s.count+count
}

// all yields every plan of a space, whatever the shard, in the same memory.
func (s *Space) all() iter.Seq[*Plan] {
	return func(yield func(*Plan) bool) {
		var one stem
		for _, one = range s.stems {
			if !one.plans(0, yield) {
				return
			}
		}
	}
}

// plans yields the plans of a stem with the values of the ends before e that it has now.
func (p *stem) plans(e int, yield func(*Plan) bool) bool {
	if e == ends {
		return yield(&p.Plan)
	}
	dimensions := p.space.dimensions
	at := dimensions[len(dimensions)-ends+e].at(&p.Plan)
	for _, v := range p.ends[e] {
		if assign(at, v) != nil || !p.plans(e+1, yield) {
			return false
		}
	}
	return true
}
