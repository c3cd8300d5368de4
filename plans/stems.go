package plans

import "iter"

// ends is the number of dimensions whose legal values do not depend on each other: the last ones.
const ends = 3

// A stem stands for the plans of a space that differ only in these dimensions: one for every combination of their
// values. A space has millions of plans, and a shard keeps few of them.
type stem struct {
	Plan
	values [ends][]string
}

// addStem adds the plans that begin as one does.
func (s *Space) addStem(p *Plan) {
	plan, count := stem{Plan: *p}, 1
	plan.space = s
	for e := range plan.values {
		i := len(s.dimensions) - ends + e
		d := &s.dimensions[i]
		values := s.valuesOf(p, d.key, d.values(s, p))
		for _, v := range values {
			if assign(d.at(p), v) == nil && d.legal(s, p) {
				plan.values[e] = append(plan.values[e], v)
			}
		}
		if plan.values[e] == nil {
			s.noteDeadEnd(i, values, p)
			return
		}
		assign(d.at(p), plan.values[e][0])
		count *= len(plan.values[e])
	}
	s.notePlacement(&plan.Plan)
	s.stems, s.count = append(s.stems, plan), s.count+count
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
	for _, v := range p.values[e] {
		if assign(at, v) != nil || !p.plans(e+1, yield) {
			return false
		}
	}
	return true
}
