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
	// verdict answers what is not asked for a number alone.
	simulation, verdict, note string
	// closedForm answers for any values of the symbols, and so does what is read
	// off a run.
	closedForm func(values) float64
	run        func(values) (run, error)
	read       func(run) float64
	// cases are changes of the sample for which both answers are compared.
	cases []values
	// further makes the checks of other quantities, such as those of the sample's run.
	further  func(q question, sample run) ([]Check, error)
	readings []Reading
	// modes and discuss are of a question about graphs, which has nothing of what is
	// above but its texts: the runs that it is about, and what they show.
	modes   []string
	discuss func(*essay) error
}

func catalog() []question {
	return slices.Concat(
		[]question{splitTime(), dataThroughput(), replicatedMemory(), replicatedGigabytes(), ringTime(), ringSeconds()},
		[]question{workOverTime(), modelScaling()}, boundaryTraffic(),
		[]question{shardedThroughput()}, shardedSymbolic(), shardedMixed(),
		[]question{pipelineOverTime(), pipelineScaling(), bubbleSize(), oneForwardOneBackward()},
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

func (q question) answer() (Answer, error) {
	sample := q.sample()
	a := Answer{ID: q.id, Title: q.title, Question: q.text, Computed: &Computed{
		Given: q.given, Formula: q.formula, Substitution: substitute(q.formula, sample), Unit: q.unit,
		Simulation: q.simulation, Verdict: q.verdict, Note: q.note, Readings: append([]Reading{}, q.readings...),
		ClosedForm: q.closedForm(sample), Checks: []Check{},
	}}
	r, err := q.run(sample)
	if err != nil {
		return Answer{}, err
	}
	a.Simulated = q.read(r)
	for _, changes := range q.cases {
		c, err := q.check(changes)
		if err != nil {
			return Answer{}, err
		}
		a.Checks = append(a.Checks, c)
	}
	further, err := q.further(q, r)
	if err != nil {
		return Answer{}, err
	}
	a.Checks = append(a.Checks, further...)
	agreeing, all := a.agreeing()
	a.OK = agree(a.ClosedForm, a.Simulated, q.unit) && agreeing == all
	return a, nil
}

// check compares the two answers for changed values.
func (q question) check(changes values) (Check, error) {
	v := q.sample().with(changes)
	r, err := q.run(v)
	if err != nil {
		return Check{}, err
	}
	return check(q.describe(changes), q.closedForm(v), q.read(r), q.unit), nil
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
	return Check{What: what, ClosedForm: closedForm, Simulated: simulated, Unit: unit, OK: agree(closedForm, simulated, unit)}
}

// extremes compares the largest and the smallest of what all ranks should have alike.
func extremes(most, least string, closedForm float64, simulated []float64, unit string) []Check {
	return []Check{check(most, closedForm, slices.Max(simulated), unit), check(least, closedForm, slices.Min(simulated), unit)}
}

// rounding bounds how far two fractions may be apart. Bytes, counts and times, in
// whole nanoseconds, must be the same.
const rounding = 1e-12

// agree compares two numbers. What is not a number agrees with nothing.
func agree(a, b float64, unit string) bool {
	if unit == "fraction" {
		return math.Abs(a-b) <= rounding
	}
	return math.Abs(a-b) == 0
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

func reading(text, formula string, value float64, unit string) Reading {
	return Reading{Reading: text, Formula: formula, Value: &value, Unit: unit}
}
