package questions

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/results"
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
	for _, a := range r.Questions {
		a.WriteMarkdown(&b, SheetForm{Level: 2, Figure: AskedGraph.link, Sources: true})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A SheetForm says how answers stand in a document.
type SheetForm struct {
	Level int // of the heading of a question
	// Figure shows a graph, as a paragraph.
	Figure func(AskedGraph) string
	// Sources says to list the runs that an answer was read off.
	Sources bool
}

// heading begins a section, some levels below that of a question.
func (l SheetForm) heading(b *strings.Builder, below int, id, title string) {
	fmt.Fprintf(b, "\n%s %s: %s\n\n", strings.Repeat("#", l.Level+below), id, title)
}

// link refers to a graph, and names the command that draws it.
func (g AskedGraph) link() string {
	text := fmt.Sprintf("[%[1]s](%[1]s)", g.File)
	if g.Command != "" {
		text += fmt.Sprintf(", by `%s`", g.Command)
	}
	return text
}

// WriteMarkdown writes the question, its graphs and its answer, with a section for each part.
func (a QuestionAnswer) WriteMarkdown(b *strings.Builder, l SheetForm) {
	l.heading(b, 0, a.ID, a.Title)
	fmt.Fprintf(b, "%s\n", a.Question)
	if a.Observed != nil {
		a.writeGraphs(b, l)
		return
	}
	a.writeComputed(b, l)
}

// writeGraphs writes the graphs, and the sentences below the parts that they answer.
func (a QuestionAnswer) writeGraphs(b *strings.Builder, l SheetForm) {
	if l.Sources {
		fmt.Fprintf(b, "\nRead off these runs: %s.\n", a.sources())
	}
	for _, g := range a.Graphs {
		if text := l.Figure(g); text != "" {
			fmt.Fprintf(b, "\n%s\n", text)
		}
	}
	if len(a.Parts) == 0 {
		b.WriteString("\n")
		a.WriteSentences(b, "")
	}
	for _, p := range a.Parts {
		l.heading(b, 1, p.ID, p.Question)
		a.WriteSentences(b, p.ID)
	}
	if a.Excuse != "" {
		fmt.Fprintf(b, "\n%s\n", a.Excuse)
	}
}

// WriteSentences lists the sentences that answer a part; "" stands for a question without parts.
func (o *Observed) WriteSentences(b *strings.Builder, part string) {
	for _, s := range o.Sentences {
		if s.Part == part {
			fmt.Fprintf(b, "- %s\n", s.Text)
		}
	}
}

// WriteMeasured writes the same answer as read off measured runs, below the predicted one.
func (o *Observed) WriteMeasured(b *strings.Builder) {
	fmt.Fprintf(b, "\n**Measured**, read off these runs: %s.\n\n", o.sources())
	for _, s := range o.Sentences {
		fmt.Fprintf(b, "- %s\n", s.Text)
	}
	if o.Excuse != "" {
		fmt.Fprintf(b, "\n%s\n", o.Excuse)
	}
}

// FromMeasured reports whether any of the runs of an answer was measured.
func (o *Observed) FromMeasured() bool {
	return slices.ContainsFunc(o.Runs, func(r SourceRun) bool { return r.Kind == results.Measured })
}

// writeComputed writes the formula with its derivation, and how it was checked.
func (a QuestionAnswer) writeComputed(b *strings.Builder, l SheetForm) {
	b.WriteString("\n| symbol | meaning | value |\n|---|---|---:|\n")
	for _, s := range a.Given {
		fmt.Fprintf(b, "| %s | %s | %s |\n", s.Name, s.Meaning, number(s.Value))
	}
	closedForm, simulated := a.check().pair(both)
	lead, rest := a.Verdict, a.Parts
	if len(a.Parts) > 0 {
		lead, rest = a.Parts[0].Answer, a.Parts[1:]
		l.heading(b, 1, a.Parts[0].ID, a.Parts[0].Question)
	} else {
		b.WriteString("\n")
	}
	b.WriteString("**Answer.** ")
	if lead != "" {
		fmt.Fprintf(b, "**%s** ", lead)
	}
	fmt.Fprintf(b, "`%s`; with these values `%s` = **%s**\n\n**Derivation**, with the same values:\n\n",
		a.Formula, a.Substitution, closedForm)
	for i, s := range a.Derivation {
		fmt.Fprintf(b, "%d. %s: `%s` = %s\n", i+1, s.Step, s.Formula, both(s.Value, s.Unit))
	}
	if a.Note != "" && len(a.Parts) == 0 {
		fmt.Fprintf(b, "\n%s\n", a.Note)
	}
	for _, p := range rest {
		l.heading(b, 1, p.ID, p.Question)
		fmt.Fprintf(b, "%s\n", p.Answer)
	}
	if len(a.Parts) > 0 {
		l.heading(b, 1, a.ID, "how it was checked")
	}
	a.writeReadings(b)
	fmt.Fprintf(b, "\n**Simulation.** %s It gives %s; %s.\n", a.Simulation, simulated, a.conclusion())
	if a.Slack > 0 {
		fmt.Fprintf(b, "%s\n", a.imprecision())
	}
	a.writeChecks(b)
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
