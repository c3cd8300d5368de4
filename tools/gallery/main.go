// Command gallery draws and describes every schedule of the catalog: docs/schedules.md.
// It also draws the plans of docs/models.md, and docs/exec.png from the run that make record
// has saved.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	lib "psim"
	"psim/internal/files"
	"psim/internal/wrap"
	"psim/reports/picture"
	"psim/results"
	"psim/schedules"
	"psim/schedules/graph"
)

const introduction = `# Which schedule does what?

<!-- Written by make gallery from the catalog (schedules/catalog.go). -->

This page shows every schedule of ` + "`psim list schedules`" + `. Pictures have P = 4 ranks and
M = 8 microbatches if the schedule can run them: a row per rank, and the number of the
microbatch in every task. A forward (F), an input gradient (I) and a weight gradient
(W) take one unit of time, a backward in one piece (B) takes two, and messages take no
time. If a rank holds V stages, or second copies of stages, these have lighter colours.
2F0 is the forward of stage 2, microbatch 0. [orders](orders.md) has the same schedules
in a table.

The bubble is the idle share of the ranks' time, unless the formula says otherwise. In
flight is the largest number of stage activations that rank r holds, from the start of
F to the end of B or W. R is the number of microbatches per round, F&B the time of an
overlapped pair, T the time of the step. The formulas hold for equal stages, free
messages, and W no longer than F and I. Tests compare them with simulations.

If no schedule fits, ` + "`schedule.name = \"auto\"`" + ` searches for an order.
`

// recorded is the folder of a run of psim exec --gpus 2 on a quiet machine with two cores.
const recorded = "tools/gallery/testdata/exec"

func main() {
	if err := errors.Join(gallery("docs"), drawPlans("docs/plans")); err != nil {
		log.Fatal(err)
	}
	if !files.IsFolder(recorded) {
		log.Printf("docs/exec.png is unchanged: %s is missing; make record makes it", recorded)
	} else if err := replay(recorded, filepath.Join("docs", "exec.png")); err != nil {
		log.Fatal(err)
	}
}

// replay draws the measured step of a saved run below the predicted one.
func replay(folder, path string) error {
	predicted, measured, err := results.LoadPair(folder)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return picture.CompareTimelines(file, picture.PNG, predicted, measured)
}

// gallery writes schedules.md and its pictures into a folder.
func gallery(folder string) error {
	text, traces, err := document()
	if err != nil {
		return err
	}
	for name, trace := range traces {
		if err := draw(filepath.Join(folder, "schedules", name+".png"), trace); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, "schedules.md"), []byte(text), 0o644)
}

// document returns schedules.md, and the traces of its pictures by schedule.
func document() (text string, traces map[string]*graph.Trace, err error) {
	text, traces = introduction, map[string]*graph.Trace{}
	for _, s := range schedules.Catalog() {
		section, trace, err := entry(s)
		if err != nil {
			return "", nil, err
		}
		text += section
		traces[s.Name] = trace
	}
	return text, traces, nil
}

// draw writes the same picture as command.
func draw(path string, trace *graph.Trace) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	title := picture.UnitTitle(trace, lib.Unit)
	return picture.Timeline(file, picture.PNG, title, picture.Panel{Trace: trace, Unit: lib.Unit})
}

// command returns the command line that draws a schedule.
func command(s schedules.Schedule, shape graph.Shape) string {
	command := fmt.Sprintf("psim schedule %s --stages %d --microbatches %d", s.Name, shape.Ranks, shape.Microbatches)
	if s.Virtual {
		command += fmt.Sprintf(" --virtual %d", shape.Virtual)
	}
	return command + " --plot " + s.Name + ".png"
}

// entry returns the section of a schedule, and the trace of its picture.
func entry(s schedules.Schedule) (string, *graph.Trace, error) {
	shape := s.Example()
	trace, err := lib.UnitTrace(s, shape)
	if err != nil {
		return "", nil, err
	}
	summary := graph.Summarize(trace)
	peak := 0
	for _, r := range summary.Ranks {
		peak = max(peak, r.PeakInFlight)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n![%s](schedules/%s.png)\n\n%s\n\n",
		s.Name, strings.ReplaceAll(picture.UnitTitle(trace, lib.Unit), "\n", ", "), s.Name, wrap.Text(s.About, 84, ""))
	fmt.Fprintf(&b, "- Bubble: `%s`; here %.1f %%", s.Bubble, 100*summary.Bubble.Makespan)
	if shape.Ranks <= 1 {
		b.WriteString(" is exposed or idle") // only pipelines have bubbles
	} else if summary.Bubble.Span != summary.Bubble.Makespan {
		fmt.Fprintf(&b, ", and %.1f %% of the longest span", 100*summary.Bubble.Span)
	}
	fmt.Fprintf(&b, ".\n")
	fmt.Fprintf(&b, "- In flight: `%s`; here at most %d.\n", s.Memory, peak)
	if s.Constraint != "" {
		fmt.Fprintf(&b, "- Needs: %s.\n", s.Constraint)
	}
	fmt.Fprintf(&b, "- Paper: %s.\n- Drawn by `%s`.\n", s.Paper, command(s, shape))
	return b.String(), trace, nil
}
