package courses

import (
	"context"
	"fmt"
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
		answers, err := questions.Answers(ctx, runs, q.ID)
		if err != nil {
			r.unanswered = append(r.unanswered, q.ID)
		}
		r.MeasuredQuestions = append(r.MeasuredQuestions, answers...)
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

// writeQuestions writes the answers.
func (r *Reproduction) writeQuestions(b *strings.Builder) {
	if len(r.Questions) == 0 {
		return
	}
	sheet := questions.NewSheet(r.Questions)
	fmt.Fprintf(b, "\n# Questions, answered from predictions\n\nThose about graphs are answered from the predicted "+
		"runs above, and the others by a closed form that a simulation checks: %d of %d are as expected.\n",
		sheet.Passed, len(sheet.Questions))
	if r.MeasuredOn == "" {
		sheet.WriteSections(b)
		return
	}
	var sections strings.Builder
	sheet.WriteSections(&sections)
	links := strings.NewReplacer(
		"[graphs/", "["+predictedFolder+"graphs/", "(graphs/", "("+predictedFolder+"graphs/")
	links.WriteString(b, sections.String())
	sheet = questions.NewSheet(r.MeasuredQuestions)
	fmt.Fprintf(b, "\n# Questions about graphs, answered from measurements\n\nThese runs are shrunk, and share "+
		"this machine's cores. Answers say where the runs are not as expected: %d of %d are.\n",
		sheet.Passed, len(sheet.Questions))
	if len(r.unanswered) > 0 {
		fmt.Fprintf(b, "Too little was measured to answer %s.\n", strings.Join(r.unanswered, ", "))
	}
	sheet.WriteSections(b)
}
