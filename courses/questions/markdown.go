package questions

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes an answer sheet.
func (r Sheet) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Questions\n\n")
	fmt.Fprintf(&b, "Each answer is a closed form and was checked by simulation, or was read off runs; "+
		"%d of %d agree. Bytes, counts and times must agree exactly, fractions to %g. Numbers that are not whole "+
		"are shown with up to six digits. The command next to a graph draws it, in a folder that has one named "+
		"graphs; `psim reproduce cs1390 --out DIR` draws all.\n",
		r.Passed, len(r.Questions), rounding)
	r.WriteSections(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteSections writes the answers of a sheet without its head.
func (r Sheet) WriteSections(b *strings.Builder) {
	for _, a := range r.Questions {
		a.writeSection(b)
	}
}

func (a QuestionAnswer) writeSection(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s: %s\n\n%s\n\n", a.ID, a.Title, a.Question)
	if a.Observed != nil {
		a.writeGraphs(b)
		return
	}
	b.WriteString("| symbol | meaning | value |\n|---|---|---:|\n")
	for _, s := range a.Given {
		fmt.Fprintf(b, "| %s | %s | %s |\n", s.Name, s.Meaning, number(s.Value))
	}
	closedForm, simulated := a.check().pair(both)
	b.WriteString("\n**Answer.** ")
	if a.Verdict != "" {
		fmt.Fprintf(b, "**%s** ", a.Verdict)
	}
	fmt.Fprintf(b, "`%s` = `%s` = **%s**\n", a.Formula, a.Substitution, closedForm)
	b.WriteString("\n")
	for i, s := range a.Derivation {
		fmt.Fprintf(b, "%d. %s: `%s` = %s\n", i+1, s.Step, s.Formula, both(s.Value, s.Unit))
	}
	if a.Note != "" {
		fmt.Fprintf(b, "\n%s\n", a.Note)
	}
	a.writeReadings(b)
	fmt.Fprintf(b, "\n**Simulation.** %s It gives %s; %s.\n", a.Simulation, simulated, a.conclusion())
	if a.Slack > 0 {
		fmt.Fprintf(b, "%s\n", a.imprecision())
	}
	a.writeChecks(b)
}

// writeGraphs writes the sentences, below a link to each graph.
func (o *Observed) writeGraphs(b *strings.Builder) {
	fmt.Fprintf(b, "**Answer**, from runs: %s.\n", o.sources())
	for _, g := range o.Graphs {
		fmt.Fprintf(b, "\n[%[1]s](%[1]s)", g.File)
		if g.Command != "" {
			fmt.Fprintf(b, ", by `%s`", g.Command)
		}
		b.WriteString(":\n\n")
		for _, s := range o.Sentences {
			if s.Graph == g.File {
				fmt.Fprintf(b, "- %s\n", s.Text)
			}
		}
	}
	if o.Excuse != "" {
		fmt.Fprintf(b, "\n%s\n", o.Excuse)
	}
}

func (a QuestionAnswer) conclusion() string {
	agreeing, all := a.agreeing()
	if a.OK && all == 0 {
		return "the two agree"
	}
	if a.OK {
		return fmt.Sprintf("the two agree, and so do %d further checks", all)
	}
	return fmt.Sprintf("**the two do not agree everywhere** (%d of %d further checks do)", agreeing, all)
}

func (a QuestionAnswer) writeReadings(b *strings.Builder) {
	if len(a.Readings) == 0 {
		return
	}
	b.WriteString("\nOther readings:\n\n")
	for _, r := range a.Readings {
		fmt.Fprintf(b, "- %s", r.Reading)
		if r.Formula != "" {
			fmt.Fprintf(b, ": `%s`", r.Formula)
		}
		if r.Value != nil {
			fmt.Fprintf(b, " = %s", both(*r.Value, r.Unit))
		}
		b.WriteString("\n")
	}
}

// writeChecks writes a table of the further comparisons, and below it a line for each
// comparison of many cases.
func (a QuestionAnswer) writeChecks(b *strings.Builder) {
	var cases strings.Builder
	head := "\n| check | closed form | simulated | agrees |\n|---|---:|---:|---|\n"
	for _, c := range a.Checks {
		if c.Unit == caseUnit {
			fmt.Fprintf(&cases, "\n%s: %s.\n", c.What, c.count())
			continue
		}
		closedForm, simulated := c.pair(readable)
		fmt.Fprintf(b, "%s| %s | %s | %s | %s |\n", head, c.What, closedForm, simulated, yesOrNo(c.OK))
		head = ""
	}
	b.WriteString(cases.String())
}

// count says in how many of its cases a check agrees.
func (c Check) count() string {
	if c.OK {
		return fmt.Sprintf("all %.0f cases agree", c.ClosedForm)
	}
	return fmt.Sprintf("%.0f of %.0f cases agree", c.Simulated, c.ClosedForm)
}
