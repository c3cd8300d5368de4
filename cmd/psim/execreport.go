package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/internal/files"
	"psim/internal/units"
	"psim/reports"
)

// report writes the files and prints the results of all modes.
func (s *session) report(ctx context.Context, folder string, stdout, stderr io.Writer) error {
	ctx = context.WithoutCancel(ctx) // what was measured until an interrupt is kept
	// What cannot be written is printed all the same: it was measured.
	written := s.write(ctx, folder)
	if err := errors.Join(s.print(stdout), written); err != nil {
		return failure{err}
	}
	if folder != "" && !s.flags.quiet {
		fmt.Fprintf(stderr, "wrote result.json, compare.png, timeline.png, trace.csv, memory.png and more in %s\n", folder)
	}
	for _, e := range s.done {
		if e.checks != nil && !e.checks.Passed {
			return failure{fmt.Errorf("%s: a check failed: %s", e.plan.Graph.Name, strings.Join(e.failures, "; "))}
		}
	}
	return nil
}

// main is the mode whose result stands for the session: 1F1B, or the last.
func (s *session) main() *executed {
	return s.done[len(s.done)-1]
}

// whole is the result of the session: of its main mode, with all modes in it if
// there are several, and then with the worst of their checks.
func (s *session) whole() reports.Result {
	r := s.main().result
	if len(s.done) == 1 {
		return r
	}
	m := *r.Measurement
	r.Measurement = &m
	for _, e := range s.done {
		r.Runs = append(r.Runs, e.result)
		if m.Checks != nil && e.checks != nil {
			worst := m.Checks.Worst(*e.checks)
			m.Checks = &worst
		}
	}
	return r
}

// print writes to stdout in the wanted form.
func (s *session) print(stdout io.Writer) error {
	whole := s.whole()
	switch {
	case s.flags.json:
		return whole.WriteJSON(stdout)
	case s.flags.csv:
		return reports.WriteResultCSV(stdout, whole)
	}
	e := s.main()
	if len(s.done) > 1 {
		fmt.Fprintf(stdout, "%s: %s on %s (backend %s), %s; predicted, then measured\n\n",
			e.config.Name(), e.plan.Workload.Network.Name, units.Plural(e.result.Devices, "device"), e.result.Backend, units.Plural(e.result.Microbatches, "microbatch"))
		if err := reports.WriteRuns(stdout, whole.Runs); err != nil {
			return err
		}
		s.remarks(stdout)
		return nil
	}
	if err := reports.WriteTable(stdout, e.result); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	return e.comparison().WriteTable(stdout)
}

// remarks prints what the table of several modes does not have.
func (s *session) remarks(stdout io.Writer) {
	for _, e := range s.done {
		if tokens := e.result.CourseTokens; tokens != nil {
			fmt.Fprintf(stdout, "%s: %.0f tokens/s by a clock that does not wait for devices; in truth %.0f\n", e.plan.Graph.Name, *tokens, e.result.Throughput.Tokens)
		}
		for _, warning := range e.result.Warnings {
			if !slices.Contains(e.plan.Warnings, warning) {
				fmt.Fprintf(stdout, "warning: %s: %s\n", e.plan.Graph.Name, warning)
			}
		}
	}
	for _, warning := range s.main().plan.Warnings { // which all modes have
		fmt.Fprintf(stdout, "warning: %s\n", warning)
	}
}

// predictedRun and measuredRun are the two sides of a comparison.
func (e *executed) predictedRun() reports.Run {
	return reports.Run{Result: *e.result.Predicted, Trace: e.predicted}
}

func (e *executed) measuredRun() reports.Run { return reports.Run{Result: e.result, Trace: e.trace} }

func (e *executed) comparison() reports.Comparison {
	return reports.Compare(e.predictedRun(), e.measuredRun())
}

// write puts the files of all modes in their places: those of the main mode in
// the folder itself, and with several modes each one's in a folder of its name.
func (s *session) write(ctx context.Context, folder string) error {
	list := s.main().files()
	list = list[:len(list)-1] // the session's result takes the place of the mode's
	if len(s.done) > 1 {
		for _, e := range s.done {
			for _, f := range e.files() {
				f.Path = e.plan.Graph.Name + "/" + f.Path
				list = append(list, f)
			}
		}
		list = append(list, files.File{Path: "modes.png", Render: s.drawModes})
	}
	list = append(list, files.File{Path: "result.json", Render: s.whole().WriteJSON})
	return reports.RunFolder(folder).Write(ctx, list, s.flags.traceFile(s.main().measuredRun())...)
}

// files lists the files of one mode, the result last.
func (e *executed) files() []files.File {
	list := []files.File{
		{Path: "predicted/trace.csv", Render: func(w io.Writer) error { return reports.WriteTraceCSV(w, e.predicted) }},
		{Path: "predicted/result.json", Render: e.result.Predicted.WriteJSON},
		{Path: "compare.png", Render: func(w io.Writer) error {
			return reports.CompareTimelines(w, reports.PNG, e.predictedRun(), e.measuredRun())
		}},
		{Path: "comparison.json", Render: e.comparison().WriteJSON},
	}
	return append(list, e.measuredRun().Files()...)
}

// drawModes draws all modes, predicted and measured, on one time axis.
func (s *session) drawModes(w io.Writer) error {
	var panels []reports.Panel
	for _, e := range s.done {
		panels = append(panels,
			reports.Panel{Trace: e.predicted, Label: e.plan.Graph.Name + ", predicted " + units.FormatDuration(e.predicted.End())},
			reports.Panel{Trace: e.trace, Label: e.plan.Graph.Name + ", measured " + units.FormatDuration(e.trace.End())})
	}
	if len(panels) == 0 {
		return errors.New("nothing was measured")
	}
	return reports.Timeline(w, reports.PNG, s.main().config.Name()+": predicted and measured", panels...)
}
