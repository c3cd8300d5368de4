package questions

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// values are the symbols of a question. A map, because the assignment uses the
// same letters for different things: P counts parameters in one part and
// partitions in another.
type values map[string]int64

// with returns a copy with some values replaced.
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
	// tolerance is how far the two answers may be apart: 0 for bytes and for
	// times in whole nanoseconds.
	tolerance float64
	// verdict answers what is not asked for a number alone.
	simulation, verdict, note string
	// closedForm and simulate answer for any values of the symbols.
	closedForm func(values) float64
	simulate   func(values) (float64, error)
	// cases are changes of the sample for which both answers are compared.
	cases []values
	// further makes the checks of other quantities; nil if there are none.
	further  func(question) ([]Check, error)
	readings []Reading
}

// catalog lists all questions.
func catalog() []question {
	return slices.Concat(
		[]question{replicatedMemory(), replicatedGigabytes(), ringTime(), ringSeconds()},
		boundaryTraffic(), shardedSymbolic(), shardedMixed(),
		[]question{bubbleSize(), oneForwardOneBackward()},
	)
}

// sample returns the values that the question states.
func (q question) sample() values {
	v := values{}
	for _, s := range q.given {
		v[s.Name] = s.Value
	}
	return v
}

// answer computes both sides and compares them.
func (q question) answer() (Answer, error) {
	sample := q.sample()
	a := Answer{
		ID: q.id, Title: q.title, Question: q.text, Given: q.given,
		Formula: q.formula, Substitution: substitute(q.formula, sample), Unit: q.unit,
		Simulation: q.simulation, Verdict: q.verdict, Note: q.note, Readings: append([]Reading{}, q.readings...),
		ClosedForm: q.closedForm(sample),
	}
	var err error
	if a.Simulated, err = q.simulate(sample); err != nil {
		return Answer{}, err
	}
	if a.Checks, err = q.checks(sample); err != nil {
		return Answer{}, err
	}
	a.OK = agree(a.ClosedForm, a.Simulated, q.tolerance)
	for _, c := range a.Checks {
		a.OK = a.OK && c.OK
	}
	return a, nil
}

// checks compares the two answers for the cases, and what further adds.
func (q question) checks(sample values) ([]Check, error) {
	checks := []Check{}
	for _, changes := range q.cases {
		v := sample.with(changes)
		simulated, err := q.simulate(v)
		if err != nil {
			return nil, err
		}
		checks = append(checks, check(q.describe(changes), q.closedForm(v), simulated, q.unit, q.tolerance))
	}
	if q.further == nil {
		return checks, nil
	}
	more, err := q.further(q)
	return append(checks, more...), err
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

// check compares a quantity.
func check(what string, closedForm, simulated float64, unit string, tolerance float64) Check {
	return Check{What: what, ClosedForm: closedForm, Simulated: simulated, Unit: unit, OK: agree(closedForm, simulated, tolerance)}
}

// agree compares two numbers. What is not a number agrees with nothing.
func agree(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

// counted makes a check over many cases: how many there are, and for how many of
// them the two answers agree.
func (q question) counted(what string, cases []values) (Check, error) {
	sample, agreeing := q.sample(), 0
	for _, changes := range cases {
		v := sample.with(changes)
		simulated, err := q.simulate(v)
		if err != nil {
			return Check{}, err
		}
		if agree(q.closedForm(v), simulated, q.tolerance) {
			agreeing++
		}
	}
	return check(what, float64(len(cases)), float64(agreeing), caseUnit, 0), nil
}

// reading makes a reading with a number.
func reading(text, formula string, value float64, unit string) Reading {
	return Reading{Reading: text, Formula: formula, Value: &value, Unit: unit}
}
