package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/internal/wrap"
	"psim/reports/table"
	"psim/results"
)

// WriteWhatIf prints for people what each single change of the configuration would give.
func WriteWhatIf(w io.Writer, r results.Result) error {
	const most = 15 // changes
	out := table.NewPage(w)
	list := r.Explain.WhatIf
	if len(list) == 0 {
		out.Print("what if: no single change makes a difference\n")
	} else {
		out.Print("what if: one change each, the shortest step first\n")
	}
	for _, what := range list[:min(most, len(list))] {
		memory := "-"
		if what.PeakMemory > 0 {
			memory = units.FormatBytes(what.PeakMemory)
		}
		difference := units.FormatSignedPercent(what.StepTime/r.StepTime - 1)
		out.Print("  %12s  %9s  %8s  %-13s --set %s\n", units.FormatSeconds(what.StepTime), difference, memory,
			what.MemoryVerdict, strings.Join(what.Set, " --set "))
	}
	if more := len(list) - most; more > 0 {
		out.Print("  … and %d more, which give less or take longer (--json)\n", more)
	}
	for i, set := range r.Explain.Unmeasured {
		if i == 0 {
			out.Print("not compared, because either the configuration's layers were measured " +
				"or those of the change, and not both:\n")
		}
		out.Print("  --set %s\n", strings.Join(set, " --set "))
	}
	return out.Flush()
}

// WriteExplanation prints the explanation of a step for people.
func WriteExplanation(w io.Writer, e *results.Explanation) error {
	out := table.NewPage(w)
	explanationTable(e).Text(out)
	writeSettings(e, out)
	return out.Flush()
}

// explanationTable makes the table of the classes.
func explanationTable(e *results.Explanation) table.Table[string] {
	var step float64
	for _, class := range results.SortedClasses(e.CriticalPath) {
		step += e.CriticalPath[class]
	}
	seconds := func(by map[string]float64) func(string) any {
		return func(class string) any {
			if by[class] == 0 {
				return ""
			}
			return units.FormatSeconds(by[class])
		}
	}
	percent := func(by map[string]float64) func(string) any {
		return func(class string) any {
			if by[class] == 0 {
				return ""
			}
			return units.FormatPercent(by[class] / step)
		}
	}
	return table.Table[string]{Rows: e.Classes(), Columns: []table.Column[string]{
		{Head: "what the step is made of", Left: true, Cell: func(class string) any { return className(class) }},
		{Head: "mean of ranks", Cell: seconds(e.ByClass)},
		{Cell: percent(e.ByClass)},
		{Head: "critical path", Cell: seconds(e.CriticalPath)},
		{Cell: percent(e.CriticalPath)},
		{Head: "hidden", Cell: seconds(e.Beside)},
	}}
}

// writeSettings prints the settings that price each class. Classes with the same settings share
// a paragraph.
func writeSettings(e *results.Explanation, out table.Page) {
	const indent, width = "      ", 90
	var texts []string
	classes := map[string][]string{} // by text
	for _, class := range e.Classes() {
		text := settingsText(e, class)
		if text == "" {
			continue
		}
		if classes[text] == nil {
			texts = append(texts, text)
		}
		classes[text] = append(classes[text], className(class))
	}
	for i, text := range texts {
		if i == 0 {
			out.Print("\npriced by\n")
		}
		names := strings.Join(classes[text], ", ")
		out.Print("  %s\n%s%s\n", names, indent, wrap.Text(text, width-len(indent), indent))
	}
}

// settingsText lists the settings that price a class, with where they are from.
func settingsText(e *results.Explanation, class string) string {
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
		return ""
	}
	return strings.Join(list, ", ") + " (" + from + ")"
}

// WriteExplanationCSV writes a row per class.
func WriteExplanationCSV(w io.Writer, e *results.Explanation) error {
	return table.Table[string]{Rows: e.Classes(), Columns: []table.Column[string]{
		{Head: "class", Cell: func(class string) any { return class }},
		{Head: "by_class_s", Cell: func(class string) any { return e.ByClass[class] }},
		{Head: "critical_path_s", Cell: func(class string) any { return e.CriticalPath[class] }},
		{Head: "beside_s", Cell: func(class string) any { return e.Beside[class] }},
	}}.CSV(w)
}

// className returns the name of a class in prose.
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
