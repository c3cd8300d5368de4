package reports

import (
	"io"
	"strings"

	"psim/internal/units"
)

// A WhatIf is a change of a configuration, and what is predicted with it.
type WhatIf struct {
	Set        []string `json:"set"`               // KEY=VALUE, as --set takes them
	StepTime   float64  `json:"step_time_s"`       // of a step with the optimizer
	PeakMemory int64    `json:"peak_memory_bytes"` // highest of any rank
	// Whether that is within the memory, as of the result.
	MemoryVerdict string `json:"memory_verdict,omitempty" oneof:"fits,close,does not fit"`
}

// mostChanges limits the changes that a table shows.
const mostChanges = 15

// WriteWhatIf prints what one change each would give for people.
func WriteWhatIf(w io.Writer, r Result) error {
	out := newPage(w)
	list := r.Explain.WhatIf
	if len(list) == 0 {
		out.print("what if: no single change makes a difference\n")
	} else {
		out.print("what if: one change each, the shortest step first\n")
	}
	for _, what := range list[:min(mostChanges, len(list))] {
		memory := "-"
		if what.PeakMemory > 0 {
			memory = units.FormatBytes(what.PeakMemory)
		}
		out.print("  %12s  %9s  %8s  %-13s --set %s\n", duration(what.StepTime), SignedPercent(what.StepTime/r.StepTime-1), memory, what.MemoryVerdict, strings.Join(what.Set, " --set "))
	}
	if more := len(list) - mostChanges; more > 0 {
		out.print("  … and %d more, which give less or take longer (--json)\n", more)
	}
	for i, set := range r.Explain.Unmeasured {
		if i == 0 {
			out.print("not compared, because either the configuration's layers were measured or those of the change, and not both:\n")
		}
		out.print("  --set %s\n", strings.Join(set, " --set "))
	}
	return out.Flush()
}
