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
	var unknown []string
	for _, left := range i.Ignored {
		if left.Reason == UnknownReason {
			unknown = append(unknown, left.From)
			continue
		}
		fmt.Fprintf(&b, "  left aside: %s: %s\n", left.From, left.Reason)
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
	switch as := "and its arguments give "; {
	case m.Rate != nil:
		text += m.Rate.text()
	case m.Misread():
		text += fmt.Sprintf("  the log prints %.1f TFLOP/s a device, %s%.1f: one of them was misread\n", m.Throughput,
			as, m.Recomputed)
	case m.Throughput > 0 && m.Recomputed > 0:
		text += fmt.Sprintf("  the log prints %.1f TFLOP/s a device, %sas much (%.1f)\n", m.Throughput, as,
			m.Recomputed)
	}
	switch between := m.Stamped - m.StepTime; {
	case m.Stamped == 0 || m.StepTime == 0:
	case m.StepTime > 1.01*m.Stamped:
		text += fmt.Sprintf("  by the times of its lines a step takes %s, and no longer: the batch was misread\n",
			seconds(m.Stamped))
	case between > 0.01*m.StepTime:
		text += fmt.Sprintf("  by the times of its lines a step takes %s: %s go by between steps, if the "+
			"batch is right\n", seconds(m.Stamped), seconds(between))
	}
	for _, note := range m.Notes {
		text += "  " + note + "\n"
	}
	return text
}

// text holds a printed rate against what the settings give.
func (r *PrintedRate) text() string {
	printed := fmt.Sprintf("  the log prints %.5g %s (%s), and ", r.Value, r.Unit, r.Counts)
	switch {
	case r.Recomputed == 0, r.Source && !r.misread():
		return ""
	case r.misread() && r.Unit == TokensPerSecond:
		return printed + fmt.Sprintf("batch, sequence length and devices give %.5g: one of them was misread\n",
			r.Recomputed)
	case r.misread():
		return printed + fmt.Sprintf("the batch gives %.5g: it was misread\n", r.Recomputed)
	}
	return printed + fmt.Sprintf("its settings give as much (%.5g)\n", r.Recomputed)
}
