package questions

import (
	"fmt"
	"math"
	"strings"
)

// A question is how one question is answered: by a formula and a simulation, or by an
// essay on runs.
type question struct {
	entry
	only     []string // the parts that are asked for; nil for all
	given    []Symbol
	steps    []Step // derive the formula, which is that of the last step
	readings []Reading
	// cases are changes of the sample for which both answers are compared, and grid is
	// many more of them.
	cases, grid []values
	// closedForm answers for any values of the symbols, and so does what is read off a
	// run.
	closedForm func(values) float64
	run        func(values) (run, error)
	read       func(run) float64
	// discuss answers a question about graphs; it is nil for the others.
	discuss func(*essay) error
}

// sample returns the values that the question states.
func (q question) sample() values {
	v := parseValues(q.Also, nil)
	for _, s := range q.given {
		v[s.Name] = s.Value
	}
	return v
}

func (q question) answer() (QuestionAnswer, error) {
	v := q.sample()
	r, err := q.run(v)
	if err != nil {
		return QuestionAnswer{}, err
	}
	c := &Computed{
		Given: q.given, Formula: q.Formula, Substitution: substitute(q.Formula, v), Unit: q.Unit,
		Simulation: v.fill(folded(q.Simulation)), Note: q.Note, Derivation: []Step{}, Readings: []Reading{},
		ClosedForm: q.closedForm(v), Simulated: q.read(r), Slack: q.off(v), Verdict: q.verdict(v),
	}
	for _, s := range q.steps {
		s.Value = evaluate(s.Formula, v.lookup)
		c.Derivation = append(c.Derivation, s)
	}
	for _, r := range q.readings {
		if r.Formula != "" {
			x := evaluate(r.Formula, v.lookup)
			r.Value = &x
		}
		c.Readings = append(c.Readings, r)
	}
	if c.Checks, err = q.checks(r); err != nil {
		return QuestionAnswer{}, err
	}
	a := QuestionAnswer{ID: q.ID, Title: q.Title, Question: q.Text, Computed: c}
	a.Parts = q.answered(func(i int, _ string) string { return []string{c.Verdict, c.Note}[i] })
	agreeing, all := a.agreeing()
	a.OK = agree(c.ClosedForm, c.Simulated, q.Unit, c.Slack) && agreeing == all
	return a, nil
}

// A verdict is the answer to a question that does not ask for a number alone, given when
// a condition holds.
type verdict struct {
	When, Text string
}

// verdict returns the first text whose condition holds, with its numbers.
func (q question) verdict(v values) string {
	for _, x := range q.Verdict {
		if holds(x.When, v.lookup) {
			answer := figure(evaluate(q.Formula, v.lookup), q.Unit)
			return v.fill(strings.ReplaceAll(folded(x.Text), "{answer}", answer))
		}
	}
	return ""
}

// off bounds how far the simulation may be from the closed form.
func (q question) off(v values) float64 {
	if q.Slack == "" || holds(q.Exact, v.lookup) {
		return 0
	}
	return evaluate(q.Slack, v.lookup)
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
		return checks, nil // the others compare whole numbers
	}
	for _, f := range q.Further {
		further, err := f.checks(q, sample)
		if err != nil {
			return nil, err
		}
		checks = append(checks, further...)
	}
	if q.grid == nil {
		return checks, nil
	}
	c, err := q.counted(q.Grid.Name, q.grid)
	return append(checks, c), err
}

// check compares the two answers for changed values.
func (q question) check(changes values) (Check, error) {
	v := q.sample().with(changes)
	r, err := q.run(v)
	if err != nil {
		return Check{}, err
	}
	c := Check{What: q.describe(changes), ClosedForm: q.closedForm(v), Simulated: q.read(r), Unit: q.Unit}
	c.OK = agree(c.ClosedForm, c.Simulated, q.Unit, q.off(v))
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

// rounding bounds how far two fractions may be apart. Bytes, counts and times, in
// whole nanoseconds, must be the same.
const rounding = 1e-12

// agree reports whether two numbers differ by no more than the slack. NaN and infinities
// agree with nothing.
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
	return Check{
		What: what, ClosedForm: float64(len(cases)), Simulated: float64(agreeing), Unit: caseUnit,
		OK: agreeing == len(cases),
	}, nil
}
