package understood

import (
	"fmt"
	"io"
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

// text says what a log measured.
func (m *LoggedSteps) text() string {
	step := time.Duration(m.StepTime * float64(time.Second))
	text := fmt.Sprintf(
		"psim: measured: a step of %d samples takes %s, the median of %s",
		m.Batch,
		units.FormatDuration(step),
		units.Plural(m.Lines, "line"),
	)
	if m.Left > 0 {
		text += fmt.Sprintf(" (%d more are of a start or of other batches)", m.Left)
	}
	if m.Lost > 0 {
		text += fmt.Sprintf(
			"; between steps %s went by",
			units.FormatDuration(time.Duration(m.Lost*float64(time.Second))),
		)
	}
	text += "\n"
	if m.Said > 0 && m.Said != m.Batch {
		text += fmt.Sprintf("  its steps are of %d samples, and its arguments say %d: "+
			"--set batch.global=%[1]d predicts these\n", m.Batch, m.Said)
	}
	switch {
	case m.Misread():
		text += fmt.Sprintf(
			"  the log prints %.1f TFLOP/s a device, and its arguments give %.1f: one of them was misread\n",
			m.Throughput,
			m.Recomputed,
		)
	case m.Throughput > 0 && m.Recomputed > 0:
		text += fmt.Sprintf(
			"  the log prints %.1f TFLOP/s a device, and its arguments give as much (%.1f)\n",
			m.Throughput,
			m.Recomputed,
		)
	}
	return text
}
