package courses

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"psim/courses/modes"
	"psim/courses/questions"
	"psim/internal/units"
)

// answer answers the questions of the assignment: all from predictions, and the questions
// about graphs from measurements, too.
func (r *Reproduction) answer(ctx context.Context) (err error) {
	if r.Questions, err = questions.Answers(ctx, r.observed(false)); err == nil && r.MeasuredOn != "" {
		r.answerMeasured(ctx)
	}
	return err
}

// answerMeasured answers the questions about graphs from measurements, if there are enough.
func (r *Reproduction) answerMeasured(ctx context.Context) {
	runs := r.observed(true)
	for _, q := range r.Questions {
		if q.Observed == nil {
			continue
		}
		switch answers, err := questions.Answers(ctx, runs, q.ID); {
		case err != nil:
			r.unanswered = append(r.unanswered, q.ID)
		case answers[0].FromMeasured():
			r.MeasuredQuestions = append(r.MeasuredQuestions, answers...)
		}
	}
}

// observed lists the runs of the assignment's graphs, predicted or measured.
func (r *Reproduction) observed(measured bool) []questions.ModeRun {
	list := []questions.ModeRun{}
	for _, run := range r.Runs {
		m, workers, ok, err := modes.Parse(run.Name)
		if !run.Asked || !ok || err != nil || measured && run.measured == nil {
			continue
		}
		q := questions.ModeRun{Mode: m.Name, Workers: workers, Run: run.side(measured)}
		if measured {
			samples := run.Measured.Throughput.Samples * run.Measured.StepTime
			q.Note = fmt.Sprintf("%.0f samples a step, %s", samples, units.Plural(len(run.Measured.Steps), "step"))
		}
		list = append(list, q)
	}
	return list
}

// writeQuestion writes a question with its graphs and its answer, first the predicted one.
func (r *Reproduction) writeQuestion(b *strings.Builder, id string) {
	i := slices.IndexFunc(r.Questions, func(a questions.QuestionAnswer) bool { return a.ID == id })
	if i < 0 {
		return
	}
	r.Questions[i].WriteMarkdown(b, questions.SheetForm{
		Level: 3, Sources: r.MeasuredOn != "",
		Figure: func(g questions.AskedGraph) string { return r.figureText(g.File) },
	})
	if slices.Contains(r.unanswered, id) {
		fmt.Fprintf(b, "\nToo little was measured to answer %s.\n", id)
	}
	for _, a := range r.MeasuredQuestions {
		if a.ID == id {
			a.WriteMeasured(b)
		}
	}
}

// agreement says how many of the questions are answered as expected.
func (r *Reproduction) agreement() string {
	count := func(answers []questions.QuestionAnswer) string {
		sheet := questions.NewSheet(answers)
		return fmt.Sprintf("%d of %d", sheet.Passed, len(sheet.Questions))
	}
	text := "Questions about graphs are answered from the predicted runs, the others by a closed form that a " +
		"simulation checks: " + count(r.Questions) + " are as expected."
	if len(r.MeasuredQuestions) > 0 {
		text += " Of those about graphs, " + count(r.MeasuredQuestions) + " are as expected in the measured runs, " +
			"which share this machine's cores; answers say where they are not."
	}
	return text
}
