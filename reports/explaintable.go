package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/internal/wrap"
)

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

// Write prints the explanation of a step for people.
func (e *Explanation) Write(w io.Writer) error {
	out := newPage(w)
	rows := [][]string{{"what the step is made of", "mean of ranks", "", "critical path", "", "beside, hidden"}}
	var step float64
	for _, class := range classesOf(e.CriticalPath) {
		step += e.CriticalPath[class]
	}
	cells := func(by map[string]float64, class string) []string {
		if by[class] == 0 {
			return []string{"", ""}
		}
		return []string{duration(by[class]), percent(by[class] / step)}
	}
	for _, class := range e.Classes() {
		row := slices.Concat([]string{className(class)}, cells(e.ByClass, class), cells(e.CriticalPath, class))
		rows = append(rows, append(row, cells(e.Beside, class)[0]))
	}
	out.table(rows)
	e.writeSettings(out)
	return out.Flush()
}

// writeSettings prints the settings of every class; those of the same settings together.
func (e *Explanation) writeSettings(out page) {
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
			out.print("\npriced by\n")
		}
		out.print("  %s\n%s%s\n", strings.Join(classes[text], ", "), indent, wrap.Text(text, width-len(indent), indent))
	}
}

// WriteCSV writes a row per class.
func (e *Explanation) WriteCSV(w io.Writer) error {
	out := newCSVWriter(w, "class,by_class_s,critical_path_s,beside_s")
	for _, class := range e.Classes() {
		out.row(class, e.ByClass[class], e.CriticalPath[class], e.Beside[class])
	}
	return out.end()
}

// className writes a class for people.
func className(class string) string {
	for _, dimension := range []string{"data", "expert", "expert-data", "tied"} {
		if name, ok := strings.CutPrefix(class, dimension+"_"); ok {
			return fmt.Sprintf("%s: %s", dimension, strings.ReplaceAll(name, "_", "-"))
		}
	}
	switch class {
	case tensorClass, contextClass:
		return class + ": exchanges"
	case "pipeline":
		return "pipeline: messages"
	}
	return strings.ReplaceAll(class, "_", " ")
}
