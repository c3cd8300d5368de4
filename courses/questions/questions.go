// Package questions answers the questions of Brown's CS1390 training assignment.
//
// A question that asks for a formula is answered twice: by a closed form, and by running
// psim's own schedules through the simulator and reading memory, messages and times off
// the result. The two ways share nothing, so their agreement means something. A question
// about graphs is answered from runs, predicted or measured, in sentences with the runs'
// numbers. Each sentence states what is expected, and whether the runs show it.
//
// The questions are data, in questions.toml: their symbols with sample values, formula,
// derivation, other readings of the wording, what is simulated, what is read off it, and
// other values for which the two ways are compared. The essays on graphs are in Go.
package questions

import (
	"context"
	"fmt"
	"io"
)

// A QuestionAnswer is a question with its answer: computed in two ways, or observed in runs.
type QuestionAnswer struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Question string `json:"question"`
	*Computed
	*Observed
	// Parts are the things that the question asks, if there are several.
	Parts []Subquestion `json:"parts,omitempty"`
	// OK says that the two answers agree, here and in all checks; or that the runs show
	// what every sentence expects.
	OK bool `json:"ok"`
}

// Computed is the answer to a question that asks for a formula.
type Computed struct {
	Given   []Symbol `json:"given"`
	Formula string   `json:"formula"`
	// Substitution is the formula with the sample values in place of symbols.
	Substitution string  `json:"substitution"`
	ClosedForm   float64 `json:"closed_form"`
	Simulated    float64 `json:"simulated"`
	Unit         string  `json:"unit"`
	// Slack bounds by how much the two may differ because the simulation counts in whole
	// elements, bytes and nanoseconds.
	Slack float64 `json:"slack,omitempty"`
	// Derivation is how the formula comes about.
	Derivation []Step `json:"derivation"`
	// Verdict answers a question that asks for more than a number.
	Verdict string `json:"verdict,omitempty"`
	// Simulation says what was run, and what was read off it.
	Simulation string    `json:"simulation"`
	Note       string    `json:"note,omitempty"`
	Readings   []Reading `json:"readings"`
	Checks     []Check   `json:"checks"`
}

// A Symbol is one of the quantities that a question is asked in terms of, with
// its value in the sample, or the reader's own.
type Symbol struct {
	Name    string `json:"symbol" toml:"symbol"`
	Meaning string `json:"meaning"`
	Unit    string `json:"unit"`
	Value   int64  `json:"value"`
	// Least and Most are what can be simulated, in multiples of Step.
	Least int64 `json:"-"`
	Most  int64 `json:"-"`
	Step  int64 `json:"-"`
}

// A Step is one in the derivation of a formula: what is counted, and how many there are.
type Step struct {
	Step    string  `json:"step"`
	Formula string  `json:"formula"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
}

// A Reading is what a question means to a reader who understands it differently. Value is
// nil if the reading changes the argument and not a number.
type Reading struct {
	Reading string   `json:"reading"`
	Formula string   `json:"formula,omitempty"`
	Value   *float64 `json:"value,omitempty"`
	Unit    string   `json:"unit,omitempty"`
}

// caseUnit marks a check of many cases: ClosedForm is how many there are, and
// Simulated in how many of them the simulation gives the closed form.
const caseUnit = "cases"

// A Check is one more comparison: the question's own for other values, or a
// different quantity of the same simulation.
type Check struct {
	What       string  `json:"what"`
	ClosedForm float64 `json:"closed_form"`
	Simulated  float64 `json:"simulated"`
	Unit       string  `json:"unit"`
	// AtLeast says that the closed form is a bound, which the simulated one may exceed.
	AtLeast bool `json:"at_least,omitempty"`
	OK      bool `json:"ok"`
}

// agreeing counts the checks that agree, or the sentences that hold, and all of them.
func (a QuestionAnswer) agreeing() (agreeing, all int) {
	if a.Observed != nil {
		for _, s := range a.Sentences {
			if s.OK {
				agreeing++
			}
		}
		return agreeing, len(a.Sentences)
	}
	for _, c := range a.Checks {
		if c.OK {
			agreeing++
		}
	}
	return agreeing, len(a.Checks)
}

// IDs lists the questions in the order of the assignment.
func IDs() []string {
	var ids []string
	for _, q := range catalog() {
		ids = append(ids, q.ID)
	}
	return ids
}

// WriteList prints what every question and each of its parts asks, in columns between tabs.
func WriteList(w io.Writer) {
	fmt.Fprintln(w, "question\twhat it asks")
	for _, q := range catalog() {
		fmt.Fprintf(w, "%s\t%s\n", q.ID, q.Text)
		for i, text := range q.Parts {
			fmt.Fprintf(w, "%s\t%s\n", q.partID(i), text)
		}
	}
}

// Answers answers the questions and parts that Select makes of ids. Those about graphs are answered
// from runs, one for every mode and number of workers, or from predictions if runs is nil.
// An error means that a simulation could not be run, or that a run is missing; answers that
// differ are not errors.
func Answers(ctx context.Context, runs []ModeRun, ids ...string) ([]QuestionAnswer, error) {
	wanted, err := selected(ids)
	if err != nil {
		return nil, err
	}
	return answerAll(ctx, runs, wanted)
}

func answerAll(ctx context.Context, runs []ModeRun, wanted []question) (answers []QuestionAnswer, err error) {
	if runs == nil {
		if runs, err = predictAll(ctx, wanted); err != nil {
			return nil, err
		}
	}
	for _, q := range wanted {
		var a QuestionAnswer
		if q.discuss != nil {
			a, err = q.observe(ctx, runs)
		} else {
			a, err = q.answer()
		}
		if err != nil {
			return nil, fmt.Errorf("question %s: %w", q.ID, err)
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// A Sheet holds answers, and counts those that agree.
type Sheet struct {
	Questions []QuestionAnswer `json:"questions"`
	Passed    int              `json:"passed"`
	Failed    int              `json:"failed"`
}

// NewSheet counts the answers that agree.
func NewSheet(answers []QuestionAnswer) Sheet {
	s := Sheet{Questions: append([]QuestionAnswer{}, answers...)}
	for _, a := range answers {
		if a.OK {
			s.Passed++
		}
	}
	s.Failed = len(answers) - s.Passed
	return s
}
