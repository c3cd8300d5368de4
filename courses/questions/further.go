package questions

import (
	"cmp"
	"go/constant"
	"strings"
	"time"

	"psim/costmodel"
	"psim/internal/units"
)

// A further holds more comparisons of a question, of its own run or of one that differs.
type further struct {
	// Schedule, Latency and Convention replace those of the question's setup.
	Schedule, Convention string
	Latency              units.Duration
	// Also has values of names that the question does not have, and With other values of
	// its symbols.
	Also, With string
	// Forward and Backward are the times of a pipeline by stage and microbatch, and Orders
	// what each stage does, actions such as F0, from left to right.
	Forward, Backward costmodel.TimeTable
	Orders            []string
	Checks            []comparison
}

// A comparison is a quantity that is computed in two ways. Fields that are not given are
// those of the question.
type comparison struct {
	What    string
	With    string // other values of the symbols
	Formula string // replaces the question's closed form
	Read    string
	Unit    string
	When    string // on which values it is made
	AtLeast bool   `toml:"at_least"` // the simulated one may be more
}

// checks makes the comparisons of a question. Its run with the sample is given.
func (f further) checks(q question, sample run) (list []Check, err error) {
	v, r := q.sample(), sample
	if s, differs := f.change(q.Simulate); differs {
		v = parseValues(f.Also, nil).with(v).with(parseValues(f.With, nil))
		if r, err = s.run(v); err != nil {
			return nil, err
		}
	}
	for _, c := range f.Checks {
		ranks := 1
		if strings.Contains(c.What, "{rank}") {
			ranks = len(r.Summary.Ranks)
		}
		for rank := range ranks {
			v["rank"], r.rank = int64(rank), rank
			if holds(c.When, v.lookup) {
				list = append(list, c.check(q, v, r, f.known))
			}
		}
	}
	return list, nil
}

// change returns the setup that the comparisons are of, and whether it differs from the
// question's.
func (f further) change(s *setup) (changed setup, differs bool) {
	changed = *s
	changed.Schedule = cmp.Or(f.Schedule, s.Schedule)
	changed.latency, changed.convention = time.Duration(f.Latency), f.Convention
	if f.Orders != nil {
		changed.times = &costmodel.Times{Forward: f.Forward, Backward: f.Backward}
	}
	return changed, f.Schedule != "" || f.Convention != "" || f.Latency != 0
}

// known looks up the values that are not computed by formulas: longest is the seconds of a
// pipeline, by a recursion over its orders.
func (f further) known(name string) constant.Value {
	if name == "longest" {
		return inSeconds(walk{f.Orders, f.Forward, f.Backward}.longest())
	}
	return nil
}

// check compares the two ways.
func (c comparison) check(q question, v values, r run, known scope) Check {
	x := Check{Unit: cmp.Or(c.Unit, q.Unit), AtLeast: c.AtLeast}
	x.What = v.fill(strings.ReplaceAll(c.What, "{formula}", c.Formula))
	x.ClosedForm, x.Simulated = q.closedForm(v.with(parseValues(c.With, nil))), q.read(r)
	if c.Formula != "" {
		x.ClosedForm = evaluate(c.Formula, known.or(v.lookup))
	}
	if c.Read != "" {
		x.Simulated = evaluate(c.Read, r.quantity)
	}
	x.OK = agree(x.ClosedForm, x.Simulated, x.Unit, 0) || c.AtLeast && x.Simulated >= x.ClosedForm
	return x
}
