package understood

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"psim/internal/units"
)

// Origin returns, for an error about keys, the arguments that they come from, each on a line.
func (i *Import) Origin(problem string) (lines string) {
	for _, m := range i.Mapped {
		if m.From != "" && strings.Contains(problem, m.To+" ") {
			lines += fmt.Sprintf("\n  %s = %v comes from %s", m.To, m.Value, m.From)
		}
	}
	return lines
}

// mostLines limits what is listed of one kind, and longest a name or a reason of it, in bytes.
const (
	mostLines = 40
	longest   = 400
)

// cut shortens a text.
func cut(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + " …"
}

// WriteText writes, for people, what became of all arguments, and what the log measured.
func (i *Import) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"psim: %s as of %s: %s; %s without effect on the time and memory of a step\n",
		i.Format,
		i.Version,
		units.Plural(len(i.Mapped), "key"),
		units.Plural(i.Idle, "argument"),
	)
	var unknown, aside []string
	for _, left := range i.Ignored {
		if left.Reason == UnknownReason {
			unknown = append(unknown, cut(left.From))
			continue
		}
		aside = append(aside, fmt.Sprintf("  left aside: %s: %s\n", cut(left.From), cut(left.Reason)))
	}
	b.WriteString(strings.Join(aside[:min(mostLines, len(aside))], ""))
	if more := len(aside) - mostLines; more > 0 {
		fmt.Fprintf(&b, "  left aside: … and %d more, which --json lists\n", more)
	}
	if more := len(unknown) - mostLines; more > 0 {
		unknown = append(unknown[:mostLines], fmt.Sprintf("… and %d more", more))
	}
	if len(unknown) > 0 {
		fmt.Fprintf(&b, "  unknown to psim, and left aside: %s\n", strings.Join(unknown, ", "))
	}
	for _, d := range i.Differences {
		fmt.Fprintf(&b, "  the script says %s = %s, and %s ran\n", d.From, d.Script, d.Log)
	}
	for _, q := range i.Missing {
		fmt.Fprintf(&b, "  missing: %s: %s\n", q.Key, q.Ask)
	}
	if i.Measured != nil {
		b.WriteString(i.Measured.text())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteText writes, for people, what the log measured.
func (m *LoggedSteps) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, m.text())
	return err
}

// text says what a log measured.
func (m *LoggedSteps) text() string {
	seconds := func(x float64) string { return units.FormatDuration(time.Duration(x * float64(time.Second))) }
	text := fmt.Sprintf("psim: measured: a step of %s takes %s, %s", units.Plural(m.Batch, "sample"),
		seconds(m.StepTime), m.How)
	if m.Left > 0 {
		text += fmt.Sprintf(" (%d more are of a start or of other batches)", m.Left)
	}
	if m.Lost > 0 {
		text += fmt.Sprintf("; between steps %s went by", seconds(m.Lost))
	}
	text += "\n"
	for _, other := range slices.Concat(m.OtherWork(), m.OtherPlan()) {
		text += "  " + other + "\n"
	}
	for _, misread := range m.Misreadings() {
		text += "  " + misread + "\n"
	}
	switch {
	case m.Rate != nil:
		text += m.Rate.text()
	case m.Throughput > 0 && m.Recomputed > 0 && !m.Misread():
		text += fmt.Sprintf("  the log prints %.1f TFLOP/s a device, and its arguments give as much (%.1f)\n",
			m.Throughput, m.Recomputed)
	}
	if between := m.Stamped - m.StepTime; m.StepTime > 0 && between > 0.01*m.StepTime {
		text += fmt.Sprintf("  by the times of its lines a step takes %s: %s go by between steps, if the "+
			"batch is right\n", seconds(m.Stamped), seconds(between))
	}
	for _, note := range m.Notes {
		text += "  " + note + "\n"
	}
	return text
}

// Misreadings says which numbers of the log do not go together; nothing where it was read right.
func (m *LoggedSteps) Misreadings() (list []string) {
	switch {
	case m.Rate != nil && m.Rate.misread():
		list = append(list, m.Rate.misreading())
	case m.Rate == nil && m.offRate():
		list = append(list, fmt.Sprintf("the log prints %.1f TFLOP/s a device, and its arguments give %.1f: one of "+
			"them was misread", m.Throughput, m.Recomputed))
	}
	if m.outlasts() {
		list = append(list, fmt.Sprintf("by the times of its lines a step takes %s, and no longer: the batch was "+
			"misread", units.FormatSeconds(m.Stamped)))
	}
	return list
}

// text holds a printed rate against what the settings give.
func (r *PrintedRate) text() string {
	if r.Recomputed == 0 || r.Source || r.misread() {
		return ""
	}
	return fmt.Sprintf("  %sits settings give as much (%.5g)\n", r.printed(), r.Recomputed)
}

// misreading says what does not go with a printed rate.
func (r *PrintedRate) misreading() string {
	if r.Unit == TokensPerSecond {
		return r.printed() + fmt.Sprintf("batch, sequence length and devices give %.5g: one of them was misread",
			r.Recomputed)
	}
	return r.printed() + fmt.Sprintf("the batch gives %.5g: it was misread", r.Recomputed)
}

// printed begins a sentence.
func (r *PrintedRate) printed() string {
	return fmt.Sprintf("the log prints %.5g %s (%s), and ", r.Value, r.Unit, r.Counts)
}
