package reports

import (
	"fmt"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// writeFineTuning writes what fine-tuning takes on the devices of a run whose assumed plan does not fit: the
// answer in a line, and a table.
func writeFineTuning(out table.Page, r results.Result) {
	out.Print("%s\n\n", fineTuningAnswer(r))
	table.Table[results.Remedy]{
		Rows: r.FineTuning,
		Columns: []table.Column[results.Remedy]{
			{Head: "training", Left: true, Cell: func(w results.Remedy) any { return w.Training }},
			{Head: "on", Left: true, Cell: func(w results.Remedy) any { return w.Layout }},
			{Head: "memory", Cell: func(w results.Remedy) any { return units.FormatBytes(w.PeakMemory) }},
			{Head: "of", Cell: func(w results.Remedy) any { return units.FormatBytes(w.MemoryCapacity) }},
			{Head: "fits", Left: true, Cell: func(w results.Remedy) any {
				switch {
				case w.Close:
					return results.Close
				case *w.Fits:
					return "yes"
				}
				return "no"
			}},
			{Head: "tokens/s", Cell: func(w results.Remedy) any { return units.FormatCount(int64(w.Tokens)) }},
		},
	}.Text(out)
	out.Print("\n")
}

// fineTuningAnswer says which way to train fits, and what the devices add.
func fineTuningAnswer(r results.Result) string {
	length := fmt.Sprintf("at %s tokens a sample", units.FormatCount(int64(r.SequenceLength)))
	var parts []string
	seen := ""
	for _, w := range r.FineTuning {
		if !*w.Fits || w.Training == seen || len(parts) == 2 {
			continue
		}
		seen = w.Training
		on := "one " + r.Device
		if w.Devices > 1 {
			on = fmt.Sprintf("%d × %s by %s alone", w.Devices, r.Device, w.Layout)
		}
		closely := ""
		if w.Close {
			closely = " closely"
		}
		text := fmt.Sprintf("%s fits %s%s (%s of %s, %s tokens/s)", w.Training, on, closely,
			units.FormatBytes(w.PeakMemory), units.FormatBytes(w.MemoryCapacity), units.FormatCount(int64(w.Tokens)))
		parts = append(parts, text+fineTuningLayout(r.FineTuning, w))
	}
	if parts == nil {
		return fmt.Sprintf("neither full training nor LoRA or QLoRA fits %s by DDP or FSDP; pipelines and tensor "+
			"groups (schedule.stages, parallel.tensor) are not tried here; else take shorter sequences, smaller "+
			"microbatches (batch.micro), more or larger devices, or a smaller model", length)
	}
	return length + " " + strings.Join(parts, "; ")
}

// fineTuningLayout says how several devices train by a method that fits one of them.
func fineTuningLayout(rows []results.Remedy, one results.Remedy) string {
	var fast, slow results.Remedy
	for _, w := range rows {
		if w.Training != one.Training || !*w.Fits || w.Devices < 2 {
			continue
		}
		if w.Tokens > fast.Tokens {
			fast, slow = w, fast
		} else {
			slow = w
		}
	}
	switch {
	case one.Devices > 1 || fast.Tokens == 0:
		return ""
	case slow.Tokens == 0:
		return fmt.Sprintf(", on %d use %s (%s tokens/s)", fast.Devices, fast.Layout,
			units.FormatCount(int64(fast.Tokens)))
	}
	return fmt.Sprintf(", on %d use %s (%s tokens/s; %s has %s)", fast.Devices, fast.Layout,
		units.FormatCount(int64(fast.Tokens)), slow.Layout, units.FormatCount(int64(slow.Tokens)))
}
