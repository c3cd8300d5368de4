package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// writeFineTuning writes what fine-tuning takes on the devices of a run whose assumed plan does not fit: the
// answer in a line, and a table.
func writeFineTuning(out table.Page, r results.Result) {
	out.Print("%s\n\n", fineTuningAnswer(r))
	shorter := slices.ContainsFunc(r.FineTuning, func(w results.Remedy) bool { return w.SequenceLength > 0 })
	table.Table[results.Remedy]{
		Rows: r.FineTuning,
		Columns: []table.Column[results.Remedy]{
			{Head: "training", Left: true, Cell: func(w results.Remedy) any { return w.Training }},
			{Head: "on", Left: true, Cell: func(w results.Remedy) any { return w.Layout }},
			{Head: "tokens", Hide: !shorter, Cell: func(w results.Remedy) any {
				return units.FormatCount(int64(cmp.Or(w.SequenceLength, r.SequenceLength)))
			}},
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
	at := func(n int) string { return fmt.Sprintf("at %s tokens a sample", units.FormatCount(int64(n))) }
	none := "neither full training nor LoRA or QLoRA fits"
	var parts []string
	length, seen := 0, ""
	for _, w := range r.FineTuning {
		if !*w.Fits || w.Training == seen || len(parts) == 2 {
			continue
		}
		seen, length = w.Training, w.SequenceLength
		for _, other := range r.FineTuning {
			several := *other.Fits && other.Training == w.Training && min(other.Devices, w.Devices) > 1
			if several && other.Tokens > w.Tokens {
				w = other
			}
		}
		on := "one " + r.Device
		if w.Devices > 1 {
			on = fmt.Sprintf("%d × %s %s", w.Devices, r.Device, together(w.Layout))
		}
		closely := ""
		if w.Close {
			closely = " closely"
		}
		text := fmt.Sprintf("%s fits %s%s (%s of %s, %s tokens/s)", w.Training, on, closely,
			units.FormatBytes(w.PeakMemory), units.FormatBytes(w.MemoryCapacity), units.FormatCount(int64(w.Tokens)))
		parts = append(parts, text+fineTuningLayout(r.FineTuning, w))
	}
	switch {
	case parts == nil:
		return fmt.Sprintf("%s %s, nor with shorter samples; take more or larger devices, or a smaller model", none,
			at(r.SequenceLength))
	case length > 0:
		return fmt.Sprintf("%s %s; %s %s", none, at(r.SequenceLength), at(length), strings.Join(parts, "; "))
	}
	return at(r.SequenceLength) + " " + strings.Join(parts, "; ")
}

// together says how several devices train.
func together(layout string) string {
	if layout == "DDP" || layout == "FSDP" {
		return "by " + layout + " alone"
	}
	return "as one " + layout
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
