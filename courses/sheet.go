package courses

import (
	"fmt"
	"io"
	"math"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// WriteMarkdown writes the sheet of answers: what was predicted and measured and in what
// sizes, every figure with its numbers, and the questions.
func (r *Reproduction) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.course.Title)
	r.writeOrigin(&b)
	for _, t := range r.course.Tasks {
		r.writeTask(&b, t)
	}
	r.writeRuns(&b)
	r.writeCommands(&b)
	r.writeQuestions(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeOrigin says where the numbers come from.
func (r *Reproduction) writeOrigin(b *strings.Builder) {
	fmt.Fprintf(b, "Made by `psim reproduce %s`. **Predicted** is what psim's simulator says for %s, at the "+
		"assignment's own size; `psim validate --published %s` says how far off it is from published "+
		"measurements.", r.Course, r.course.Machine, r.course.Published)
	if r.MeasuredOn == "" {
		b.WriteString(" Nothing was measured: `--measure` runs it.\n")
		return
	}
	fmt.Fprintf(b, " **Measured** is what psim's own workers took on this machine (%s), next to a "+
		"prediction of the same, smaller run, from its tasks measured alone. The figures in this folder show these "+
		"two, and those in %s the predictions at the assignment's own size.\n", r.MeasuredOn, predictedFolder)
	if list := append(r.Shrunk, r.fewerSteps()...); len(list) > 0 {
		fmt.Fprintf(b, "\nMeasured runs are shrunk to end in time: %s.\n", strings.Join(list, "; "))
	}
	if shared := r.names((*ReproducedRun).shared); shared != "" {
		fmt.Fprintf(b, "\nOversubscribed, with more workers than cores, so that their times say little about "+
			"workers of their own: %s.\n", shared)
	}
	if disturbed := r.names((*ReproducedRun).disturbed); disturbed != "" {
		fmt.Fprintf(b, "\nSomething else ran on the machine, or the steps were uneven, during: %s.\n", disturbed)
	}
	if missing := r.missing(true); missing != "" {
		fmt.Fprintf(b, "\nNot measured, although the assignment asks for it: %s.\n", missing)
	}
	if missing := r.missing(false); missing != "" {
		fmt.Fprintf(b, "\nNot measured, and not asked for: %s.\n", missing)
	}
}

// missing lists the runs that were not measured, with the reasons: those that the
// assignment asks for, or the others.
func (r *Reproduction) missing(asked bool) string {
	var list []string
	for _, run := range r.Runs {
		if run.Asked == asked && run.measured == nil {
			list = append(list, fmt.Sprintf("%s (%s)", run.Name, run.LeftOut))
		}
	}
	return strings.Join(list, ", ")
}

// fewerSteps says how many steps or epochs the measured runs have, if they are fewer than the
// assignment's.
func (r *Reproduction) fewerSteps() []string {
	fewest, most := math.MaxInt, 0
	for _, run := range r.Runs {
		if run.measured != nil {
			n := r.course.counted(*run.Measured)
			fewest, most = min(n, fewest), max(most, n)
		}
	}
	many := units.Plural(most, r.course.unit())
	switch {
	case fewest >= r.course.Count:
		return nil
	case fewest == most:
		return []string{fmt.Sprintf("%s instead of %d", many, r.course.Count)}
	}
	return []string{fmt.Sprintf("%d to %s instead of %d", fewest, many, r.course.Count)}
}

// names lists the measured runs for which a condition holds.
func (r *Reproduction) names(is func(*ReproducedRun) bool) string {
	var list []string
	for _, run := range r.Runs {
		if run.measured != nil && is(run) {
			list = append(list, run.Name)
		}
	}
	return strings.Join(list, ", ")
}

func (r *ReproducedRun) disturbed() bool { return r.Measured.Disturbed }

// writeTask shows the figures that a part of the assignment asks for, and their numbers.
func (r *Reproduction) writeTask(b *strings.Builder, t task) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", t.Title, t.Asks)
	for _, measured := range []bool{false, true} {
		text := t.say(func(name string) *results.Result { return r.find(name).result(measured) })
		if text != "" {
			fmt.Fprintf(b, "\n**%s.** %s\n", map[bool]string{false: "Predicted", true: "Measured"}[measured], text)
		}
	}
	for _, path := range t.Figures {
		f := r.course.figure(path)
		measured := r.shows(f)
		kind := results.Predicted
		if measured {
			kind = "measured, next to its prediction"
		}
		caption := strings.ToUpper(f.Caption[:1]) + f.Caption[1:]
		fmt.Fprintf(b, "\n![%s](%s)\n\n*%s: %s.*", f.Caption, path, caption, kind)
		if measured {
			fmt.Fprintf(b, " At the assignment's own size, predicted: [%s](%[1]s).", predictedFolder+path)
		}
		b.WriteString("\n")
	}
}

// writeCommands lists the commands that predict every run by itself.
func (r *Reproduction) writeCommands(b *strings.Builder) {
	b.WriteString("\nEach prediction by itself:\n\n```sh\n")
	for _, run := range r.Runs {
		fmt.Fprintln(b, run.Command)
	}
	b.WriteString("```\n")
}
