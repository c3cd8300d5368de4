package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	lib "psim"
	"psim/courses/coursefile"
	"psim/internal/units"
	"psim/launch"
	"psim/profiles"
	"psim/reports"
	"psim/results"
	"psim/results/compare"
)

const compareManual = `compare prints how much result B differs from result A, and where the difference
comes from: compute, communication that no work hides, waiting for other ranks,
and dispatch (work that is ready but has not started); by kind of task and by
rank. A and B are folders that psim run or psim exec has written, or the
result.json in them; MODE=WORKERS, which psim predicts as for psim plot; or files that a
course's own scripts have saved (see psim plot --help). One of them may be the log of a
run of the other's plan (docs/logs.md), or traces of PyTorch's profiler of it: a
.json.gz, or a folder of them. A single folder must be one of psim exec: its prediction
is then A, and its measured step B.

Steps that differ in work (in samples, in the length of sequences, in the network) do
not compare by their times: the throughput is then the first row, and a warning says
how they differ.

Differences are B − A: a measured step that takes longer than predicted has a
positive error. Under "B against A" a percentage is of A's own value; under "of
A's step" it is of A's step time, so that parts add up to the error of the step.`

func newCompare() *cobra.Command {
	var f outputFlags
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "compare two results, predicted or measured, and explain the difference",
		Long:  compareManual,
		Example: `  psim compare out/gpipe out/1f1b
  psim compare out/measured                           of psim exec, against its prediction
  psim compare out/gpipe train.log                    a prediction, and the log of its run
  psim compare out/gpipe out/1f1b --out out/both      comparison.json and compare.png`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			given := cmp.Or(strings.Join(args, " "), "nothing")
			return fmt.Errorf("compare takes two results, or one that was measured, not %s\n"+
				"see \"psim compare --help\"", given)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), args, f, streamsOf(cmd))
		},
	}
	f.registerOutput(cmd.Flags(), outputHelp{
		json: "print the comparison as one JSON object and nothing else",
		csv:  "print one row per quantity as CSV and nothing else",
		out:  "folder to write comparison.json and compare.png to",
	})
	return cmd
}

func runCompare(ctx context.Context, args []string, f outputFlags, std streams) error {
	if err := f.exclusive(); err != nil {
		return err
	}
	f.clearDash()
	to := f.to(reports.ComparisonFolder(f.out))
	if err := f.checkOut(to); err != nil {
		return err
	}
	a, b, err := loadSides(ctx, args, std.err)
	if err != nil {
		return err
	}
	c := lib.Compare(a, b)
	var unsaved error
	if f.out != "" {
		var names []string
		if names, unsaved = reports.SaveComparison(ctx, to, c, [2]results.Run{a, b}); unsaved == nil {
			f.reportWritten(std.err, strings.Join(names, ", "), f.out)
		}
	}
	return errors.Join(f.printComparison(c, std), failed(unsaved))
}

// loadSides loads the two results to compare, and predicts those of the form MODE=WORKERS.
func loadSides(ctx context.Context, args []string, said io.Writer) (a, b results.Run, err error) {
	if len(args) == 1 {
		return coursefile.LoadMeasured(args[0])
	}
	if a, b, ok, err := ranSides(ctx, args, said); ok || err != nil {
		return a, b, err
	}
	for i, run := range []*results.Run{&a, &b} {
		predicted := false
		if *run, predicted, err = predictMode(ctx, args[i], ""); err == nil && !predicted {
			*run, err = coursefile.LoadRun(args[i])
		}
		if err != nil {
			return a, b, err
		}
	}
	return a, b, nil
}

// printComparison prints a comparison in the form that the flags ask for.
func (f outputFlags) printComparison(c compare.Comparison, std streams) error {
	switch {
	case f.json:
		return c.WriteJSON(std.out)
	case f.csv:
		return reports.WriteComparisonCSV(std.out, c)
	}
	return reports.WriteComparison(std.out, c)
}

// A ranSide makes a measured run of a log or of traces, of the plan of a result.
type ranSide func(plan results.Result) (results.Run, error)

// ranSides loads a result, and what a run of its plan wrote: a log, or traces of PyTorch's profiler, in either order;
// false where neither is one. What a log measured is said.
func ranSides(ctx context.Context, names []string, said io.Writer) (a, b results.Run, ok bool, err error) {
	for i, name := range names {
		side, err := ranSideOf(ctx, name, said)
		if err != nil {
			return a, b, false, err
		}
		if side == nil {
			continue
		}
		other := names[1-i]
		if second, err := ranSideOf(ctx, other, io.Discard); err != nil || second != nil {
			return a, b, false, cmp.Or(err, fmt.Errorf("%s: is of a run elsewhere, as is %s; name one of them, and a "+
				"result of psim's", other, name))
		}
		planned, err := coursefile.LoadRun(other)
		if err != nil {
			return a, b, false, err
		}
		measured, err := side(planned.Result)
		if a, b = planned, measured; i == 0 {
			a, b = measured, planned
		}
		return a, b, err == nil, err
	}
	return a, b, false, nil
}

// ranSideOf returns what makes a run of a log or of traces, and nil for other files.
func ranSideOf(ctx context.Context, name string, said io.Writer) (ranSide, error) {
	steps, data := stepsOf(name)
	if steps != nil {
		if err := launch.OneRun(launch.Input{Label: name, Data: data}); err != nil {
			return nil, err
		}
		return func(plan results.Result) (results.Run, error) {
			held := map[string]string{"parallel.tensor": strconv.Itoa(max(1, plan.TensorParallel))}
			if plan.Precision != "" {
				held["train.precision"] = plan.Precision
			}
			addPrinted(ctx, launch.Input{Label: name, Data: data}, steps, held)
			run, err := runOfLog(name, steps, plan)
			if err == nil {
				err = steps.WriteText(said)
			}
			return run, err
		}, nil
	}
	if lacks := launch.Lacks(data); lacks != "" {
		return nil, fmt.Errorf("%s: has no line that says how long a step took: %s", name, lacks)
	}
	traces, err := tracesIn(name)
	if err != nil || len(traces) == 0 || !strings.HasSuffix(traces[0], ".json.gz") {
		return nil, nil // a result, or nothing, which is said where it is loaded
	}
	list, err := readTraces(ctx, traces, func(int) {})
	if err != nil {
		return nil, err
	}
	return func(plan results.Result) (results.Run, error) { return runOfTraces(name, list, plan) }, nil
}

// runOfTraces makes a measured run of a step that was profiled, of the plan of a result: every rank has the mean.
func runOfTraces(name string, step *profiles.ProfiledStep, plan results.Result) (results.Run, error) {
	if step.World > 0 && step.World != plan.Devices {
		return results.Run{}, fmt.Errorf("%s: is of a run of %d ranks, and %s has %d devices", name, step.World,
			plan.Name, plan.Devices)
	}
	r := ranAs(name, plan, step.Times.Sum().Seconds())
	of := func(classes ...profiles.Class) (seconds float64) {
		for _, class := range classes {
			seconds += step.Times[class].Seconds()
		}
		return seconds
	}
	dispatch, waiting := of(profiles.Launches), of(profiles.Idle)
	for i := range r.Ranks {
		rank := &r.Ranks[i]
		rank.Compute = of(profiles.Products, profiles.Attention, profiles.Between, profiles.Copies)
		rank.ExposedCommunication = of(profiles.Transfer, profiles.Messages, profiles.Skew)
		rank.Communication, rank.Optimizer = rank.ExposedCommunication, of(profiles.Optimizer)
		rank.Idle, rank.Dispatch, rank.Waiting = dispatch+waiting, &dispatch, &waiting
	}
	r.Throughput.Samples = plan.StepSamples() / r.StepTime
	return results.Run{Result: r}, nil
}

// stepsOf returns what a file says of its steps if it is a log, and the log; nil otherwise.
func stepsOf(name string) (*launch.LoggedSteps, []byte) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > launch.MostBytes {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil
	}
	return launch.Steps(data), data
}

// runOfLog makes a measured run of what a log says, of the plan of a result. What its step is made of is not known.
func runOfLog(name string, steps *launch.LoggedSteps, plan results.Result) (results.Run, error) {
	steps.Complete(launch.LoggedPlan{
		Samples: int(plan.StepSamples() + 0.5), Tokens: plan.SequenceLength, Devices: plan.Devices,
		Replicas: max(1, plan.DataParallel), Parameters: cmp.Or(plan.TrainedParameters, plan.Parameters),
	})
	if steps.StepTime <= 0 {
		return results.Run{}, fmt.Errorf("%s: prints rates, and %s does not say how many samples a step has", name,
			plan.Name)
	}
	r := ranAs(name, plan, steps.StepTime)
	r.SequenceLength = cmp.Or(steps.Tokens, r.SequenceLength)
	if steps.OtherNetwork() {
		r.Parameters = steps.Parameters
	}
	if steps.Batch > 0 {
		r.Throughput.Samples = float64(steps.Batch) / steps.StepTime
	}
	addMemory(&r, steps, plan)
	return results.Run{Result: r}, nil
}

// addMemory gives the rank that is predicted to need the most memory the highest peak that a log prints: of
// tensors, and what the prediction has for the rest of a process; else of what PyTorch reserves.
func addMemory(r *results.Result, steps *launch.LoggedSteps, plan results.Result) {
	if steps.Allocated+steps.Reserved == 0 || plan.PeakMemory() == 0 {
		return
	}
	for i, rank := range plan.Ranks {
		if rank.PeakMemory != plan.PeakMemory() {
			continue
		}
		if steps.Allocated == 0 {
			r.Ranks[i].PeakMemory = steps.Reserved
			steps.Notes = append(steps.Notes, "the peak of memory is what PyTorch reserves: a process holds more")
			return
		}
		besides := int64(0)
		if rank.Memory != nil {
			besides = rank.Memory.Context
		}
		r.Ranks[i].PeakMemory = steps.Allocated + besides
		if besides > 0 {
			steps.Notes = append(steps.Notes, fmt.Sprintf("the peak of memory is the log's of tensors, with %s for "+
				"the rest of a process, as predicted", units.FormatBytes(besides)))
		}
		return
	}
}

// ranAs begins the result of a run of a plan whose step takes so long.
func ranAs(name string, plan results.Result, step float64) results.Result {
	r := results.Result{
		Schema: results.Schema, Kind: results.Measured, Name: filepath.Base(name), Schedule: plan.Schedule,
		FullySharded: plan.FullySharded, ZeroGroup: plan.ZeroGroup,
		Stages: plan.Stages, VirtualStages: plan.VirtualStages,
		Microbatches: plan.Microbatches, DataParallel: plan.DataParallel, TensorParallel: plan.TensorParallel,
		Devices: plan.Devices, StepTime: step, Bubble: results.UnknownBubble(), FitsMemory: true,
		Ranks: make([]results.RankResult, len(plan.Ranks)), Work: results.Work{SequenceLength: plan.SequenceLength},
		Measurement: &results.Measurement{RunsMade: 1, TimesComparable: true, Steps: []float64{step}},
		Warnings:    []string{},
	}
	for i := range r.Ranks {
		r.Ranks[i].Rank = i
	}
	return r
}
