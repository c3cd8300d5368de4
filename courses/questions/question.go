package questions

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// values gives a number to each symbol. It is a map, because the assignment uses the
// same letters for different things: P counts parameters in one part and
// partitions in another.
type values map[string]int64

func (v values) with(changes values) values {
	merged := maps.Clone(v)
	maps.Copy(merged, changes)
	return merged
}

// A question is how one question is answered.
type question struct {
	id, title, text string
	given           []Symbol
	formula, unit   string
	// steps derive the formula, which the last of them is.
	steps            []Step
	simulation, note string
	// verdict answers what is not asked for a number alone; nil elsewhere.
	verdict func(values) string
	// closedForm answers for any values of the symbols, and so does what is read
	// off a run. It is the formula.
	closedForm func(values) float64
	run        func(values) (run, error)
	read       func(run) float64
	// needs says what is wrong with values that are each within range; nil if nothing
	// can be.
	needs func(values) error
	// slack bounds by how much the simulation may be off because it counts in whole
	// elements, bytes and nanoseconds: 0 where the values divide, and nil if always.
	slack func(values) float64
	// cases are changes of the sample for which both answers are compared.
	cases []values
	// grid are more of them, of which only the number is told.
	gridName string
	grid     []values
	// further makes the checks of other quantities, such as those of the sample's run.
	further  func(q question, sample run) ([]Check, error)
	readings []Reading
	// modes and discuss are of a question about graphs, which has nothing of what is
	// above but its texts: the runs that it is about, and what they show.
	modes   []string
	discuss func(*essay) error
}

func catalog() []question {
	all := slices.Concat(
		[]question{splitTime(), dataThroughput(), replicatedMemory(), replicatedGigabytes(), ringTime(), ringSeconds()},
		[]question{workOverTime(), modelScaling()}, boundaryTraffic(),
		[]question{shardedThroughput()}, shardedSymbolic(), shardedMixed(),
		[]question{pipelineOverTime(), pipelineScaling(), bubbleSize(), oneForwardOneBackward()},
	)
	for i := range all {
		formula := all[i].formula
		all[i].closedForm = func(v values) float64 { return evaluate(formula, v) }
	}
	return all
}

// sample returns the values that the question states.
func (q question) sample() values {
	v := values{}
	for _, s := range q.given {
		v[s.Name] = s.Value
	}
	return v
}

func (q question) answer() (Answer, error) {
	v := q.sample()
	r, err := q.run(v)
	if err != nil {
		return Answer{}, err
	}
	c := &Computed{
		Given: q.given, Formula: q.formula, Substitution: substitute(q.formula, v), Unit: q.unit,
		Simulation: q.simulation, Note: q.note, Derivation: []Step{}, Readings: []Reading{},
		ClosedForm: q.closedForm(v), Simulated: q.read(r), Slack: q.off(v),
	}
	for _, s := range q.steps {
		s.Value = evaluate(s.Formula, v)
		c.Derivation = append(c.Derivation, s)
	}
	for _, r := range q.readings {
		if r.Formula != "" {
			x := evaluate(r.Formula, v)
			r.Value = &x
		}
		c.Readings = append(c.Readings, r)
	}
	if q.verdict != nil {
		c.Verdict = q.verdict(v)
	}
	if c.Checks, err = q.checks(r); err != nil {
		return Answer{}, err
	}
	a := Answer{ID: q.id, Title: q.title, Question: q.text, Computed: c}
	agreeing, all := a.agreeing()
	a.OK = agree(c.ClosedForm, c.Simulated, q.unit, c.Slack) && agreeing == all
	return a, nil
}

// off bounds how far the simulation may be from the closed form.
func (q question) off(v values) float64 {
	if q.slack == nil {
		return 0
	}
	return q.slack(v)
}

// checks makes all further comparisons.
func (q question) checks(sample run) ([]Check, error) {
	checks := []Check{}
	for _, changes := range q.cases {
		c, err := q.check(changes)
		if err != nil {
			return nil, err
		}
		checks = append(checks, c)
	}
	if q.off(q.sample()) > 0 {
		return checks, nil // others compare whole numbers
	}
	further, err := q.further(q, sample)
	checks = append(checks, further...)
	if err == nil && q.grid != nil {
		var c Check
		c, err = q.counted(q.gridName, q.grid)
		checks = append(checks, c)
	}
	return checks, err
}

// check compares the two answers for changed values.
func (q question) check(changes values) (Check, error) {
	v := q.sample().with(changes)
	r, err := q.run(v)
	if err != nil {
		return Check{}, err
	}
	c := check(q.describe(changes), q.closedForm(v), q.read(r), q.unit)
	c.OK = agree(c.ClosedForm, c.Simulated, q.unit, q.off(v))
	return c, nil
}

// describe names a case by what it changes, in the order of the symbols.
func (q question) describe(changes values) string {
	var parts []string
	for _, s := range q.given {
		if v, ok := changes[s.Name]; ok {
			parts = append(parts, fmt.Sprintf("%s = %s", s.Name, number(v)))
		}
	}
	return strings.Join(parts, ", ")
}

func check(what string, closedForm, simulated float64, unit string) Check {
	return Check{What: what, ClosedForm: closedForm, Simulated: simulated, Unit: unit, OK: agree(closedForm, simulated, unit, 0)}
}

// extremes compares the largest and the smallest of what all ranks should have alike.
func extremes(most, least string, closedForm float64, simulated []float64, unit string) []Check {
	return []Check{check(most, closedForm, slices.Max(simulated), unit), check(least, closedForm, slices.Min(simulated), unit)}
}

// rounding bounds how far two fractions may be apart. Bytes, counts and times, in
// whole nanoseconds, must be the same.
const rounding = 1e-12

// agree compares two numbers that may be so far apart. What is not a number agrees with
// nothing.
func agree(a, b float64, unit string, slack float64) bool {
	if unit == "fraction" {
		slack = rounding
	}
	return math.Abs(a-b) <= slack
}

// counted makes a check over many cases: how many there are, and for how many of
// them the two answers agree.
func (q question) counted(what string, cases []values) (Check, error) {
	agreeing := 0
	for _, changes := range cases {
		c, err := q.check(changes)
		if err != nil {
			return Check{}, err
		}
		if c.OK {
			agreeing++
		}
	}
	return check(what, float64(len(cases)), float64(agreeing), caseUnit), nil
}

func reading(text, formula, unit string) Reading {
	return Reading{Reading: text, Formula: formula, Unit: unit}
}

// valued makes a reading whose number no formula gives.
func valued(text string, value float64, unit string) Reading {
	return Reading{Reading: text, Value: &value, Unit: unit}
}
