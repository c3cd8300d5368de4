package questions

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"psim/internal/wrap"
)

// WriteText writes a table for the terminal: a line for every question, and under it the
// values that the answer is for, its derivation if derive is true, the note, the other
// readings and the checks that fail.
func (r Sheet) WriteText(w io.Writer, derive bool) error {
	rows := [][]string{{"", "question", "formula", "closed form", "simulated", "checks", "ok"}}
	for _, a := range r.Questions {
		rows = append(rows, a.row())
	}
	lines := align(rows)
	var b strings.Builder
	b.WriteString(lines[0] + "\n")
	for i, a := range r.Questions {
		b.WriteString("\n" + lines[i+1] + "\n")
		a.writeDetails(&b, derive)
	}
	fmt.Fprintf(&b, "\n%d of %d questions agree.\n", r.Passed, len(r.Questions))
	_, err := io.WriteString(w, b.String())
	return err
}

func (a QuestionAnswer) row() []string {
	if a.Observed != nil {
		holding, all := a.agreeing()
		return []string{a.ID, a.Title, "", "", "", fmt.Sprintf("%d/%d", holding, all), yesOrNo(a.OK)}
	}
	closedForm, simulated := a.check().pair(figure)
	agreeing, all := a.agreeing()
	return []string{a.ID, a.Title, a.Formula, closedForm, simulated, fmt.Sprintf("%d/%d", agreeing, all), yesOrNo(a.OK)}
}

const (
	indent    = "      "
	textWidth = 100
)

func (a QuestionAnswer) writeDetails(b *strings.Builder, derive bool) {
	if a.Observed != nil {
		a.writeSentences(b, a.Parts)
		return
	}
	paragraph(b, "", a.sample())
	if len(a.Parts) == 0 {
		paragraph(b, "", a.Verdict)
	}
	for _, p := range a.Parts {
		paragraph(b, p.ID+" ", p.Question)
		paragraph(b, "- ", p.Answer)
	}
	if derive {
		for i, s := range a.Derivation {
			paragraph(b, fmt.Sprintf("%d. ", i+1), fmt.Sprintf("%s: %s = %s", s.Step, s.Formula, both(s.Value, s.Unit)))
		}
	}
	if a.Slack > 0 {
		paragraph(b, "", a.imprecision())
	}
	if len(a.Parts) == 0 {
		paragraph(b, "", a.Note)
	}
	for _, r := range a.Readings {
		text := r.Reading
		if r.Value != nil {
			text = figure(*r.Value, r.Unit) + ": " + text
		}
		paragraph(b, "or ", text)
	}
	for _, c := range a.Checks {
		switch {
		case c.OK:
		case c.Unit == caseUnit:
			fmt.Fprintf(b, "%sNO: %s: %s\n", indent, c.What, c.count())
		default:
			fmt.Fprintf(b, "%sNO: %s: closed form %s, simulated %s\n", indent, c.What,
				exact(c.ClosedForm, c.Unit), exact(c.Simulated, c.Unit))
		}
	}
}

// writeSentences writes the sentences, by part and by graph.
func (o *Observed) writeSentences(b *strings.Builder, parts []Subquestion) {
	paragraph(b, "", "from runs: "+o.sources())
	graph := ""
	write := func(part string) {
		for _, s := range o.Sentences {
			if s.Part != part {
				continue
			}
			if s.Graph != graph {
				graph = s.Graph
				paragraph(b, "", graph+":")
			}
			paragraph(b, "- ", s.Text)
		}
	}
	write("")
	for _, p := range parts {
		paragraph(b, p.ID+" ", p.Question)
		write(p.ID)
	}
	paragraph(b, "", o.Excuse)
}

// imprecision says why the simulation may be a little off.
func (c Computed) imprecision() string {
	return "The simulation counts in whole elements, bytes and nanoseconds, so that it may be off by " +
		figure(c.Slack, c.Unit) + "."
}

// sample lists the values of the symbols in the formula, and the answer for them.
func (a QuestionAnswer) sample() string {
	var symbols []string
	for _, s := range a.Given {
		if slices.Contains(symbol.FindAllString(a.Formula, -1), s.Name) {
			symbols = append(symbols, fmt.Sprintf("%s = %s", s.Name, number(s.Value)))
		}
	}
	return "with " + strings.Join(symbols, ", ") + ": " + both(a.ClosedForm, a.Unit)
}

// paragraph writes a wrapped text whose first line begins with a mark.
func paragraph(b *strings.Builder, mark, text string) {
	for _, line := range wrap.Lines(text, textWidth-len(indent)-len(mark)) {
		b.WriteString(indent + mark + line + "\n")
		mark = strings.Repeat(" ", len(mark))
	}
}

func align(rows [][]string) []string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	table.Flush() // into memory
	return strings.Split(b.String(), "\n")
}
