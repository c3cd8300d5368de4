package questions

import (
	_ "embed" // the questions
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

//go:embed questions.toml
var questionsText string

// An entry is a question in questions.toml.
type entry struct {
	ID, Title, Text string
	// Parts are what it asks one after another. The first part of a question about a formula is
	// answered by its verdict, and the second by its note.
	Parts []string
	// Like is the question from which this one takes what it does not say.
	Like string
	// Modes are of a question about graphs: the modes of the runs that it is about.
	Modes []string
	Given [][]any // a quantity, a value and perhaps a meaning
	// Also has values of names that the reader cannot change.
	Also          string
	Formula, Unit string
	Steps         [][]string // a text, a formula and its unit
	// Readings are other readings: a text, and perhaps a formula or a number, and its unit.
	Readings         [][]any
	Verdict          []verdict
	Simulation, Note string
	Simulate         *setup
	Read             string // formula of quantities of the run
	// Slack bounds by how much the simulation may be off because it counts in whole
	// elements, bytes and nanoseconds, unless Exact holds.
	Slack, Exact string
	Cases        []string
	Grid         *grid
	Needs        []need
	Further      []further
}

// catalog lists all questions, in the order of the assignment.
var catalog = sync.OnceValue(func() []question {
	var file struct {
		Quantity map[string]Symbol
		Question []entry
	}
	read, err := toml.Decode(questionsText, &file)
	if err != nil || len(read.Undecoded()) > 0 {
		panic(fmt.Sprintf("questions.toml: %v %v", err, read.Undecoded()))
	}
	var list []question
	for _, e := range file.Question {
		if e.Like != "" {
			i := slices.IndexFunc(list, func(q question) bool { return q.ID == e.Like })
			e.inherit(list[i].entry)
		}
		list = append(list, e.question(file.Quantity))
	}
	return list
})

// inherit takes from another question what this one does not say.
func (e *entry) inherit(other entry) {
	own := func(texts ...*string) {
		for i := 0; i < len(texts); i += 2 {
			if *texts[i] == "" {
				*texts[i] = *texts[i+1]
			}
		}
	}
	own(&e.Formula, &other.Formula, &e.Unit, &other.Unit, &e.Read, &other.Read,
		&e.Simulation, &other.Simulation, &e.Slack, &other.Slack, &e.Exact, &other.Exact)
	e.Given, e.Steps, e.Readings = or(e.Given, other.Given), or(e.Steps, other.Steps), or(e.Readings, other.Readings)
	e.Cases, e.Needs, e.Further = or(e.Cases, other.Cases), or(e.Needs, other.Needs), or(e.Further, other.Further)
	if e.Simulate == nil {
		e.Simulate = other.Simulate
	}
	if e.Grid == nil {
		e.Grid = other.Grid
	}
}

// or returns the first list, or the second if the first was not given.
func or[T any](a, b []T) []T {
	if a == nil {
		return b
	}
	return a
}

// question prepares an entry to be answered.
func (e entry) question(quantities map[string]Symbol) question {
	e.Text, e.Note = folded(e.Text), folded(e.Note)
	q := question{entry: e}
	if q.discuss = essays()[e.ID]; q.discuss != nil {
		return q
	}
	for _, row := range e.Given {
		s, ok := quantities[row[0].(string)]
		if !ok {
			panic(fmt.Sprintf("question %s: no quantity %q", e.ID, row[0]))
		}
		if s.Value = row[1].(int64); len(row) > 2 {
			s.Meaning = row[2].(string)
		}
		s.Step = max(1, s.Step)
		q.given = append(q.given, s)
	}
	for _, row := range e.Steps {
		q.steps = append(q.steps, Step{Step: folded(row[0]), Formula: row[1], Unit: row[2]})
	}
	for _, row := range e.Readings {
		q.readings = append(q.readings, newReading(row))
	}
	for _, text := range e.Cases {
		q.cases = append(q.cases, parseValues(text, nil))
	}
	if e.Grid != nil {
		q.grid = slices.DeleteFunc(e.Grid.points(), func(v values) bool { return q.refuse(v) != nil })
	}
	q.closedForm = func(v values) float64 { return evaluate(e.Formula, v.lookup) }
	q.run = e.Simulate.run
	q.read = func(r run) float64 { return evaluate(e.Read, r.quantity) }
	return q
}

// newReading reads a row: a text, and perhaps a formula or a number, and its unit.
func newReading(row []any) Reading {
	r := Reading{Reading: folded(row[0].(string))}
	if len(row) > 1 {
		r.Unit = row[2].(string)
		switch x := row[1].(type) {
		case string:
			r.Formula = x
		case float64:
			r.Value = &x
		}
	}
	return r
}

// folded joins the lines of a text.
func folded(text string) string { return strings.Join(strings.Fields(text), " ") }
