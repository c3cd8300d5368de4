package questions

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes an answer sheet.
func (r Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Formula questions\n\n")
	fmt.Fprintf(&b, "Each answer is a closed form and was checked by simulation; %d of %d agree.\n", r.Passed, len(r.Questions))
	for _, a := range r.Questions {
		a.writeSection(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSection writes one question.
func (a Answer) writeSection(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s: %s\n\n%s\n\n", a.ID, a.Title, a.Question)
	b.WriteString("| symbol | meaning | value |\n|---|---|---:|\n")
	for _, s := range a.Given {
		fmt.Fprintf(b, "| %s | %s | %s |\n", s.Name, s.Meaning, number(s.Value))
	}
	fmt.Fprintf(b, "\n**Answer.** `%s` = `%s` = **%s**\n", a.Formula, a.Substitution, both(a.ClosedForm, a.Unit))
	if a.Note != "" {
		fmt.Fprintf(b, "\n%s\n", a.Note)
	}
	a.writeReadings(b)
	fmt.Fprintf(b, "\n**Simulation.** %s It gives %s; %s.\n", a.Simulation, both(a.Simulated, a.Unit), a.conclusion())
	a.writeChecks(b)
}

// conclusion says whether the two answers agree.
func (a Answer) conclusion() string {
	agreeing, all := a.agreeing()
	if a.OK {
		return fmt.Sprintf("the two agree, and so do %d further checks", all)
	}
	return fmt.Sprintf("**the two do not agree everywhere** (%d of %d further checks do)", agreeing, all)
}

func (a Answer) writeReadings(b *strings.Builder) {
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

func (a Answer) writeChecks(b *strings.Builder) {
	if len(a.Checks) == 0 {
		return
	}
	b.WriteString("\n| check | closed form | simulated | agrees |\n|---|---:|---:|---|\n")
	for _, c := range a.Checks {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", c.What, exact(c.ClosedForm, c.Unit), exact(c.Simulated, c.Unit), verdict(c.OK))
	}
}

// both prints all digits of a quantity, and where they are many its size.
func both(x float64, unit string) string {
	digits, rounded := exact(x, unit), figure(x, unit)
	if unit == "bytes" && x >= 1000 {
		return digits + " (" + rounded + ")"
	}
	return digits
}
