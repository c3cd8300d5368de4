package courses

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"psim/courses/modes"
	"psim/internal/units"
	"psim/results"
)

// WriteMarkdown writes the sheet of answers: what was predicted and measured and in what
// sizes, every figure with its numbers, and the questions.
func (r *Reproduction) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.course.Title)
	r.writeOrigin(&b)
	b.WriteString("\nRun the commands below in this folder: their paths are relative to it.\n")
	if len(r.Questions) > 0 {
		fmt.Fprintf(&b, "\n%s\n", r.agreement())
	}
	for _, t := range r.course.Tasks {
		r.writeTask(&b, t)
	}
	r.claimsSection(&b)
	r.writeRuns(&b)
	r.writeCommands(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// sheets names the files of the sheet: README.md too where the assignment wants its answers.
func (c course) sheets() []string {
	if c.Questions {
		return []string{"README.md", "answers.md"}
	}
	return []string{"answers.md"}
}

// writeOrigin says where the numbers come from.
func (r *Reproduction) writeOrigin(b *strings.Builder) {
	how := fmt.Sprintf("what psim's simulator says for %s, at the assignment's own size; `psim validate --published "+
		"%s` says how far off it is from published measurements.", r.course.Machine, r.course.Published)
	fmt.Fprintf(b, "Made by `psim reproduce %s`. ", r.Course)
	if r.MeasuredOn == "" {
		fmt.Fprintf(b, "**All numbers and figures are predicted**: they are %s Nothing was measured: `--measure` runs "+
			"it.\n", how)
		return
	}
	fmt.Fprintf(b, "**Predicted** is %s", how)
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

func (r *ReproducedRun) disturbed() bool { return r.Measured.Disturbed && !r.shared() }

// writeTask answers a part of the assignment, with the figures that it asks for.
func (r *Reproduction) writeTask(b *strings.Builder, t task) {
	fmt.Fprintf(b, "\n## %s\n", t.Title)
	if t.Asks != "" {
		fmt.Fprintf(b, "\n%s.\n", t.Asks)
	}
	for _, measured := range []bool{false, true} {
		text := t.say(func(name string) *results.Result { return r.find(name).result(measured) })
		switch {
		case text == "":
		case r.MeasuredOn == "":
			fmt.Fprintf(b, "\n%s\n", text)
		default:
			fmt.Fprintf(b, "\n**%s.** %s\n", map[bool]string{false: "Predicted", true: "Measured"}[measured], text)
		}
	}
	for _, id := range t.Questions {
		r.writeQuestion(b, id)
	}
	for _, path := range t.Figures {
		fmt.Fprintf(b, "\n%s\n", r.figureText(path))
	}
}

// figureText shows a figure with its caption and the command that draws the prediction; it is
// empty for a figure that the course does not have.
func (r *Reproduction) figureText(path string) string {
	f := r.course.figure(path)
	if f.Path == "" {
		return ""
	}
	var b strings.Builder
	caption := strings.ToUpper(f.Caption[:1]) + f.Caption[1:]
	fmt.Fprintf(&b, "![%s](%s)\n\n*%s", f.Caption, path, caption)
	within := ""
	switch {
	case r.MeasuredOn == "":
		b.WriteString(".*")
	case r.shows(f):
		within = predictedFolder
		fmt.Fprintf(&b, ": measured, next to its prediction.* At the assignment's own size, predicted: [%s](%[1]s).",
			within+path)
	default:
		within = predictedFolder
		b.WriteString(": predicted.*")
	}
	if command := r.course.plot(f, within); command != "" {
		fmt.Fprintf(&b, " By `%s`.", command)
	}
	return b.String()
}

// plot returns the command that draws the prediction of a figure, into a folder within the one of
// the assignment; it is empty if no single command does.
func (c course) plot(f figure, within string) string {
	words := []string{"psim plot", f.Kind}
	if f.Saved {
		for _, name := range f.runs() {
			words = append(words, within+resultsFolder+assignedRun{Name: name}.folder())
		}
	} else {
		runs := c.words(f)
		if runs == nil {
			return ""
		}
		words = append(words, runs...)
	}
	if f.Key != "" {
		words = append(words, "--metric "+f.Key)
	}
	return strings.Join(append(words, "--out "+within+f.Path), " ")
}

// words lists the runs of a figure as MODE=WORKERS,WORKERS…, and the flags that they have in common. It
// returns nil if the runs have another form.
func (c course) words(f figure) (list []string) {
	last, flags := "", []string{}
	for i, name := range f.runs() {
		at := slices.IndexFunc(c.Runs, func(r assignedRun) bool { return r.Name == name })
		mode, workers, ok, err := modes.Parse(name)
		if at < 0 || !ok || err != nil {
			return nil
		}
		own := c.flags(c.Runs[at], mode)
		if i > 0 && !slices.Equal(own, flags) {
			return nil
		}
		if flags = own; mode.Name == last {
			list[len(list)-1] += fmt.Sprint(",", workers)
		} else {
			list = append(list, fmt.Sprintf("%s=%d", mode.Name, workers))
		}
		last = mode.Name
	}
	return append(list, flags...)
}

// flags lists the flags of psim plot for a run of a mode: the configuration if it is not the mode's
// own, and the settings that do not follow from the number of workers.
func (c course) flags(r assignedRun, mode modes.Mode) (list []string) {
	if r.Config != mode.Config {
		list = append(list, "--config "+r.Config)
	}
	sets := r.Sets
	for _, s := range c.Series {
		if s.Mode == mode.Name {
			sets = slices.Concat(s.Sets, c.Sets)
		}
	}
	for _, s := range sets {
		list = append(list, "--set "+s)
	}
	return list
}

// writeCommands lists the commands that predict every run by itself.
func (r *Reproduction) writeCommands(b *strings.Builder) {
	b.WriteString("\nEach prediction by itself:\n\n```sh\n")
	for _, run := range r.Runs {
		fmt.Fprintln(b, run.Command)
	}
	b.WriteString("```\n")
}
