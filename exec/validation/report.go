package validation

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"strings"

	"psim/exec/cluster/mpi"
	"psim/internal/units"
	"psim/reports/table"
)

// WriteMarkdown prints the report as a document, which says how to make it again.
func (r *ExecutedReport) WriteMarkdown(w io.Writer) error {
	build, page, kernels := "GOEXPERIMENT=simd go run ", "executed.md", "kernels of "+cmp.Or(r.SIMD, "plain Go")
	switch {
	case strings.Contains(r.Flags, "--backend xla"):
		build, page = "CGO_ENABLED=1 GOEXPERIMENT=simd go run -tags xla ", "executed-xla.md"
		kernels = "programs compiled by XLA, each device a process on a core"
	case mpi.Compiled:
		build = "CC=mpicc GOEXPERIMENT=simd go run -tags mpi "
	}
	fmt.Fprintf(w, `# Predicted before it was run

Every row is one experiment: its tasks were measured one by one, and with a neighbour on
every core, at least six times in turns and more while that differed; the step was predicted
from that, and then the same graph was run on %s. Made by

    %s./cmd/psim validate --executed --markdown%s > docs/%s

on %s, with %s and %s.
Step times are medians over the measured steps, peaks of the rank that holds the most: predicted from the network alone,
and counted by the devices' ledgers of all tensors. The speed-up is that of the
makespan over model-parallel's; ideal is 2·M/(M+1), of equal stages. Every experiment
was run as often as the column says, whatever came out: all of them once, then all again,
so that what disturbs the machine for some minutes falls on one run of each. The run whose
error is the median counts; the next column has the errors of all. A star marks those during
which the machine was disturbed, as psim exec --runs says it.

`, units.Plural(r.Devices, "device"), build, r.Flags, page, r.Machine, runtime.Version(), kernels)
	r.table().Markdown(w)
	_, err := fmt.Fprintf(w, `
Step time: median error %.1f %%, worst %.1f %%. Bubble: at worst %.1f points off.
Peak memory: to the byte in %d of %d rows.
%s
The heap is that of the whole process, so of all devices together, and holds more
than tensors: what programs need while they run (the ledger counts what they are
given, what they return and what they make again) and keep for the next run,
compiled programs, the batches, and garbage, which is not collected during a step.
`, 100*r.MedianError, 100*r.WorstError, 100*r.WorstBubble, r.SamePeak, len(r.Rows), r.ended())
	return err
}

// table lists the rows in columns.
func (r *ExecutedReport) table() table.Table[ExecutedRow] {
	type row = ExecutedRow
	return table.Table[row]{Rows: r.Rows, Columns: []table.Column[row]{
		{Head: "model", Left: true, Cell: func(r row) any { return r.Model }},
		{Head: "schedule", Left: true, Cell: func(r row) any { return r.name() }},
		{Head: "M", Cell: func(r row) any { return r.Microbatches }},
		{Head: "predicted", Cell: func(r row) any { return units.FormatSeconds(r.Predicted) }},
		{Head: "measured", Cell: func(r row) any { return r.measured() }},
		{Head: "error", Cell: func(r row) any { return units.FormatSignedPercent(r.Error) }},
		{Head: "of all runs", Cell: func(r row) any { return r.errors() }},
		{Head: "runs", Cell: func(r row) any { return r.runs() }},
		{Head: "bubble", Cell: func(r row) any { return r.ofBubble(fmt.Sprintf("%.1f %%", 100*r.Bubble)) }},
		{Head: "off by", Cell: func(r row) any { return r.ofBubble(units.FormatPoints(r.BubbleError)) }},
		{Head: "peak predicted", Cell: func(r row) any { return r.PredictedPeak }},
		{Head: "ledger", Cell: func(r row) any { return r.Peak }},
		{Head: "heap", Cell: func(r row) any { return units.FormatBytes(r.HeapGrowth) }},
		{Head: "dispatch", Cell: func(r row) any { return fmt.Sprintf("%.2f %%", 100*r.Dispatch) }},
		{Head: "speed-up", Cell: func(r row) any { return times(r.SpeedUp) }},
		{Head: "ideal", Cell: func(r row) any { return times(r.Ideal) }},
	}}
}

// ofBubble returns a text about the bubble of a pipeline, or "" without a bubble.
func (r ExecutedRow) ofBubble(text string) string {
	if r.Bubble == 0 {
		return ""
	}
	return text
}

// times prints a ratio; "" for 0.
func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f×", ratio)
}

// name says how a row's step was spread.
func (r ExecutedRow) name() string {
	if r.MPI {
		return fmt.Sprintf("%s, %d over MPI", r.Kind, r.Processes)
	}
	if r.Processes > 0 {
		return fmt.Sprintf("%s, %d processes", r.Kind, r.Processes)
	}
	return r.Kind
}

// errors prints the errors of all runs, beginning with the lowest; "" for a single run.
func (r ExecutedRow) errors() string {
	if len(r.Errors) < 2 {
		return ""
	}
	var list []string
	for _, e := range r.Errors {
		list = append(list, units.FormatSignedPercent(e))
	}
	return strings.Join(list, ", ")
}

// ended says how far a report got that ended early.
func (r *ExecutedReport) ended() string {
	if r.Partial {
		made := 0
		for _, row := range r.Rows {
			made += len(row.Errors)
		}
		return fmt.Sprintf("Ended early, after %d of %d runs.\n", made, r.Chosen*r.Runs)
	}
	return ""
}

// WriteText prints the rows in columns.
func (r *ExecutedReport) WriteText(w io.Writer) error {
	const line = "%-10s  %-18s %2s  %9s  %18s  %8s  %13s  %11s  %4s\n"
	fmt.Fprintf(w, "%s of %s\n\n", units.Plural(r.Devices, "device"), r.Machine)
	fmt.Fprintf(w, line,
		"model", "schedule", "M", "predicted", "measured", "error", "bubble off by", "peak off by", "runs")
	for _, row := range r.Rows {
		peak := strings.Replace(fmt.Sprint(row.Peak-row.PredictedPeak), "-", "−", 1)
		fmt.Fprintf(w, line,
			row.Model, row.name(), fmt.Sprint(row.Microbatches), units.FormatSeconds(row.Predicted), row.measured(),
			units.FormatSignedPercent(row.Error), units.FormatPoints(row.BubbleError), peak+" B", row.runs())
	}
	_, err := fmt.Fprintf(w, `
step time: median error %.1f %%, worst %.1f %%; bubble: at worst %.1f points; peak memory to the byte in %d of %d
runs: how often an experiment was run; that of the median error counts (*: the machine was disturbed meanwhile)
%s`, 100*r.MedianError, 100*r.WorstError, 100*r.WorstBubble, r.SamePeak, len(r.Rows), r.ended())
	return err
}

// runs prints the number of runs, with a star if the machine was disturbed.
func (r ExecutedRow) runs() string {
	n := fmt.Sprint(len(r.Errors))
	if r.Disturbed {
		return n + "*"
	}
	return n
}

// measured prints the step time, with its deviation if there are several steps.
func (r ExecutedRow) measured() string {
	if r.Steps < 2 {
		return units.FormatSeconds(r.Measured)
	}
	return units.FormatSeconds(r.Measured) + " ± " + units.FormatSeconds(r.Deviation)
}
