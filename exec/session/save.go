package session

import (
	"context"
	"fmt"
	"io"
	"slices"

	"psim/exec/pth"
	"psim/internal/files"
	"psim/internal/units"
	"psim/reports"
	"psim/reports/picture"
	"psim/reports/titles"
	"psim/results"
	"psim/results/compare"
	"psim/results/tracecsv"
)

// Main returns the run whose result stands for the session: the last one, or nil if nothing was
// run.
func (s *Session) Main() *Trial {
	if len(s.Runs) == 0 {
		return nil
	}
	return s.Runs[len(s.Runs)-1]
}

// Result returns the result of the main run. If there are several runs, it contains all of
// them, and the worst of their checks. It is partial if an error ended the session, even if the
// run itself was complete.
func (s *Session) Result() results.Result {
	if len(s.Runs) == 0 {
		return results.Result{}
	}
	r := s.Main().Result
	m := *r.Measurement
	r.Measurement = &m
	m.Partial = m.Partial || s.early
	if len(s.Runs) == 1 {
		return r
	}
	for _, run := range s.Runs {
		r.Runs = append(r.Runs, run.Result)
		if run != s.Main() && m.Checks != nil && run.Result.Checks != nil {
			worst := m.Checks.Worst(*run.Result.Checks)
			m.Checks = &worst
		}
	}
	return r
}

// Err is an error if a check of a run failed.
func (s *Session) Err() error {
	for _, r := range s.Runs {
		if err := r.Verdict.Err(); err != nil {
			return fmt.Errorf("%s: %w", r.Experiment.Graph.Name, err)
		}
	}
	return nil
}

// Sides returns the prediction and the measurement in the form of reports.
func (r *Trial) Sides() (predicted, measured results.Run) {
	predicted = results.Run{Result: *r.Result.Predicted, Trace: r.Predicted}
	return predicted, results.Run{Result: r.Result, Trace: r.Measured}
}

// Save writes the files of all runs: those of the main run into the folder itself and, if there
// are several, those of each run into a folder with its schedule's name. It also writes files
// elsewhere. All are written, or none.
func (s *Session) Save(ctx context.Context, folder files.Folder, elsewhere ...files.File) error {
	traced := len(elsewhere) > 0
	list := s.Main().files(traced)
	list = list[:len(list)-1] // the session's result replaces the run's
	if len(s.Runs) > 1 {
		for _, r := range s.Runs {
			for _, f := range r.files(traced) {
				f.Path = r.Experiment.Graph.Name + "/" + f.Path
				list = append(list, f)
			}
		}
		list = append(list, files.File{Path: "modes.png", Render: s.draw})
	}
	list = append(list, files.File{Path: "result.json", Render: s.Result().WriteJSON})
	return folder.Write(ctx, list, elsewhere...)
}

// files lists the files of one run, the result last. Traces of very many tasks are included
// only if they are asked for.
func (r *Trial) files(traced bool) []files.File {
	predicted, measured := r.Sides()
	var list []files.File
	if traced || r.Predicted.Graph.Len() <= reports.MostTracedTasks {
		trace := func(w io.Writer) error { return tracecsv.WriteTraceCSV(w, r.Predicted) }
		list = append(list, files.File{Path: "predicted/trace.csv", Render: trace})
	}
	list = append(list, []files.File{
		{Path: "predicted/result.json", Render: r.Result.Predicted.WriteJSON},
		{Path: "compare.png", Render: func(w io.Writer) error {
			return picture.CompareTimelines(w, picture.PNG, predicted, measured)
		}},
		{Path: "comparison.json", Render: compare.Compare(predicted, measured).WriteJSON},
	}...)
	return append(list, reports.RunFiles(measured, traced)...)
}

// draw draws all runs, predicted and measured, on one time axis.
func (s *Session) draw(w io.Writer) error {
	var panels []picture.Panel
	var list []results.Result
	for _, r := range s.Runs {
		a, b := r.Sides()
		list = append(list, a.Result, b.Result)
		predicted := r.Experiment.Graph.Name + ", predicted " + units.FormatDuration(r.Predicted.End())
		panels = append(panels,
			picture.Panel{Trace: r.Predicted, Label: predicted},
			picture.Panel{Trace: r.Measured, Label: r.measuredLabel()})
	}
	title := titles.Common(list...) + "\nmeasured: the step of median time"
	return picture.Timeline(w, picture.PNG, title, panels...)
}

// measuredLabel names the step of a measured run that is drawn.
func (r *Trial) measuredLabel() string {
	label := r.Experiment.Graph.Name + ", measured " + units.FormatDuration(r.Measured.End())
	if n := len(r.Result.Steps); n > 1 {
		label += fmt.Sprintf(", the median of %d steps", n)
	}
	return label
}

// WriteText prints one run with its comparison, or a table of several runs.
func (s *Session) WriteText(w io.Writer) error {
	main := s.Main()
	if len(s.Runs) == 1 {
		if err := reports.WriteResult(w, main.Result); err != nil {
			return err
		}
		fmt.Fprintln(w)
		return reports.WriteComparison(w, compare.Compare(main.Sides()))
	}
	result := s.Result()
	where := "backend " + result.Backend
	if n := len(main.Result.Processes); n > 0 {
		where += fmt.Sprintf(", %d processes", n)
	}
	fmt.Fprintf(w, "%s: %s on %s (%s), %s; predicted, then measured\n\n",
		main.Config.Name(), main.Experiment.Staged.Network.Name,
		units.Plural(result.Devices, "device"), where, units.Plural(result.Microbatches, "microbatch"))
	var runs []results.Run
	for _, r := range s.Runs {
		_, measured := r.Sides()
		runs = append(runs, measured)
	}
	if err := reports.WriteRuns(w, runs); err != nil {
		return err
	}
	s.writeRemarks(w)
	return nil
}

// writeRemarks prints the remarks that are not in the table of several runs.
func (s *Session) writeRemarks(w io.Writer) {
	for _, r := range s.Runs {
		if tokens := r.Result.UnwaitedTokens; tokens != nil {
			perEpoch := ""
			if e := r.Result.Epochs; e != nil && e.Unwaited != nil {
				perEpoch = fmt.Sprintf(" (of an epoch %.0f ± %.0f)", e.Unwaited.Tokens, e.UnwaitedStd.Tokens)
			}
			fmt.Fprintf(w, "%s: %.0f tokens/s%s by a clock that does not wait for devices, %.0f by one that waits\n",
				r.Experiment.Graph.Name, *tokens, perEpoch, r.Result.Throughput.Tokens)
		}
		if n := r.Result.RunsMade; n > 1 {
			fmt.Fprintf(w, "%s: the least disturbed of %d runs\n", r.Experiment.Graph.Name, n)
		}
		for _, warning := range r.Result.Warnings {
			if !slices.Contains(r.Experiment.Warnings, warning) {
				fmt.Fprintf(w, "warning: %s: %s\n", r.Experiment.Graph.Name, warning)
			}
		}
	}
	if main := s.Main().Result; !main.TimesComparable {
		fmt.Fprintf(w, "warning: %s\n", units.Plural(main.Devices, "device")+results.SharedCores)
	}
	for _, warning := range s.Main().Experiment.Warnings { // all runs have them
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}

// Gradients lists the files with the gradients of the first step of all runs: for every rank
// one that torch.load reads, with a dictionary by name. Several runs have a folder each.
func (s *Session) Gradients() (list []files.File) {
	for _, r := range s.Runs {
		folder := ""
		if len(s.Runs) > 1 {
			folder = r.Experiment.Graph.Name + "/"
		}
		for rank, held := range r.gradients {
			name := GradientName(rank)
			var tensors []pth.SavedTensor
			for _, t := range held.Tensors {
				tensors = append(tensors, pth.SavedTensor{Name: t.Name, Shape: t.Shape, Values: held.Values[t.Name]})
			}
			list = append(list, files.File{Path: folder + name + ".pth", Render: func(w io.Writer) error {
				return pth.Write(w, name, tensors)
			}})
		}
	}
	return list
}

// GradientName names the file of a rank's gradients, without its extension.
func GradientName(rank int) string { return fmt.Sprintf("model%d_gradients", rank) }
