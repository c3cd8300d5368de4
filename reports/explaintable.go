package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/internal/csvfile"
	"psim/internal/units"
	"psim/internal/wrap"
	"psim/reports/table"
	"psim/results"
)

// mostChanges limits the changes that a table shows.
const mostChanges = 15

// WriteWhatIf prints what one change each would give for people.
func WriteWhatIf(w io.Writer, r results.Result) error {
	out := table.NewPage(w)
	list := r.Explain.WhatIf
	if len(list) == 0 {
		out.Print("what if: no single change makes a difference\n")
	} else {
		out.Print("what if: one change each, the shortest step first\n")
	}
	for _, what := range list[:min(mostChanges, len(list))] {
		memory := "-"
		if what.PeakMemory > 0 {
			memory = units.FormatBytes(what.PeakMemory)
		}
		out.Print("  %12s  %9s  %8s  %-13s --set %s\n", units.FormatSeconds(what.StepTime), units.FormatSignedPercent(what.StepTime/r.StepTime-1), memory, what.MemoryVerdict, strings.Join(what.Set, " --set "))
	}
	if more := len(list) - mostChanges; more > 0 {
		out.Print("  … and %d more, which give less or take longer (--json)\n", more)
	}
	for i, set := range r.Explain.Unmeasured {
		if i == 0 {
			out.Print("not compared, because either the configuration's layers were measured or those of the change, and not both:\n")
		}
		out.Print("  --set %s\n", strings.Join(set, " --set "))
	}
	return out.Flush()
}

// WriteExplanation prints the explanation of a step for people.
func WriteExplanation(w io.Writer, e *results.Explanation) error {
	out := table.NewPage(w)
	rows := [][]string{{"what the step is made of", "mean of ranks", "", "critical path", "", "beside, hidden"}}
	var step float64
	for _, class := range results.SortClasses(e.CriticalPath) {
		step += e.CriticalPath[class]
	}
	cells := func(by map[string]float64, class string) []string {
		if by[class] == 0 {
			return []string{"", ""}
		}
		return []string{units.FormatSeconds(by[class]), units.FormatPercent(by[class] / step)}
	}
	for _, class := range e.Classes() {
		row := slices.Concat([]string{className(class)}, cells(e.ByClass, class), cells(e.CriticalPath, class))
		rows = append(rows, append(row, cells(e.Beside, class)[0]))
	}
	out.Table(rows)
	writeSettings(e, out)
	return out.Flush()
}

// writeSettings prints the settings of every class; those of the same settings together.
func writeSettings(e *results.Explanation, out table.Page) {
	const indent, width = "      ", 90
	var texts []string
	classes := map[string][]string{} // by text
	for _, class := range e.Classes() {
		var list []string
		from := ""
		for _, s := range e.Settings {
			if !slices.Contains(s.Classes, class) {
				continue
			}
			if s.From != from && from != "" {
				list[len(list)-1] += " (" + from + ")"
			}
			from = s.From
			list = append(list, s.Key+" = "+s.Value)
		}
		if list == nil {
			continue
		}
		text := strings.Join(list, ", ") + " (" + from + ")"
		if classes[text] == nil {
			texts = append(texts, text)
		}
		classes[text] = append(classes[text], className(class))
	}
	for i, text := range texts {
		if i == 0 {
			out.Print("\npriced by\n")
		}
		out.Print("  %s\n%s%s\n", strings.Join(classes[text], ", "), indent, wrap.Text(text, width-len(indent), indent))
	}
}

// WriteCSV writes a row per class.
func WriteExplanationCSV(w io.Writer, e *results.Explanation) error {
	out := csvfile.NewWriter(w, "class,by_class_s,critical_path_s,beside_s")
	for _, class := range e.Classes() {
		out.Row(class, e.ByClass[class], e.CriticalPath[class], e.Beside[class])
	}
	return out.End()
}

// className writes a class for people.
func className(class string) string {
	for _, dimension := range []string{"data", "expert", "expert-data", "tied"} {
		if name, ok := strings.CutPrefix(class, dimension+"_"); ok {
			return fmt.Sprintf("%s: %s", dimension, strings.ReplaceAll(name, "_", "-"))
		}
	}
	switch class {
	case results.TensorClass, results.ContextClass:
		return class + ": exchanges"
	case "pipeline":
		return "pipeline: messages"
	}
	return strings.ReplaceAll(class, "_", " ")
}
