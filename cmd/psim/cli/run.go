package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	lib "psim"
	"psim/advise"
	"psim/configs"
	"psim/internal/files"
	"psim/internal/units"
	"psim/reports"
	"psim/reports/picture"
	"psim/reports/trace"
	"psim/results"
)

type runFlags struct {
	outputFlags
	targetFlags
	trace      string        // file to write the timeline to
	exact      bool          // whether to prove a searched order
	limit      time.Duration // of the proof
	boundaries bool          // whether to show the tensors that pass between stages
	explain    bool          // whether to break the time down, and to try single changes
	epochs     int
	shards     bool // whether to show the samples of every replica
	strided    bool // how to deal them to the replicas
}

const runManual = `run simulates one training step and predicts its time, bubble, memory and
communication. ` + targetHelp + `

It prints a summary and a timeline, and writes result.json, timeline.png,
timeline.svg, memory.png, trace.csv and memory.csv into a folder: --out, or by default
out/NAME with the changes of --set appended. With --json or --csv it writes files
only if --out is given. With --out - it writes none. "psim help config" lists
all settings.

--boundaries adds the tensors that pass between neighbouring stages for one microbatch,
forward and backward, with shapes and bytes. With --csv they replace the ranks.

--explain adds what the time of the step is made of, by operation: as the mean of all
ranks, and along the chain of tasks that determines it. Both add up to the step time. It
also names the settings that price every class of tasks, and simulates single changes: a
link or a rate of the device twice as fast, other microbatches, another recomputation,
another schedule. Changes without effect are left out. With --csv the parts of the time
replace the ranks.

With data.samples or data.tokens, the size of the data set, it also predicts the time of
an epoch, one pass over all samples. If fewer samples are left for the last step, it is a
step of these, in microbatches of the same size; where a schedule cannot run so few, it is
filled up.
--epochs N adds up N epochs. --shards adds which samples every replica trains on; with
--csv they replace the ranks.

With schedule.name = "auto" psim searches for the order of F, I and W: the one with
the shortest span, then makespan, under the memory of a rank. --exact also calls
the solver cbc (Debian's coinor-cbc), which proves the span of small pipelines.
"auto-v" searches in the same way for two stages per rank, in the V of zbv.`

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run CONFIG",
		Short: "simulate: predict step time, bubble, memory and communication",
		Long:  runManual,
		Example: `  psim run gpipe
  psim run gpipe --set schedule.name=1f1b --set schedule.microbatches=16
  psim run configs/course-timeline.toml --json
  psim run my.toml --out results/my --trace my.pftrace
  psim run llama3-8b --device h100-80gb-sxm --devices 8`,
		Args:              exactArgs(1, "one CONFIG, "+configArgument),
		ValidArgsFunction: completeConfig,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.targetFlags.check(cmd.Flags()); err != nil {
				return err
			}
			return runRun(cmd.Context(), args[0], f, streamsOf(cmd))
		},
	}
	flags := cmd.Flags()
	f.registerInput(flags)
	f.registerVerbose(flags)
	f.registerOutput(flags, outputHelp{
		json: "print the result as one JSON object and nothing else",
		csv:  "print one row per rank as CSV and nothing else",
		out:  "folder to write the result and pictures to; - for none (default out/NAME)",
	})
	f.registerTrace(flags, "also write the timeline")
	f.targetFlags.register(cmd)
	f.registerDevices(flags)
	flags.BoolVar(&f.exact, "exact", false,
		"let the solver cbc prove the order of schedule.name = \"auto\", for small pipelines")
	flags.BoolVar(&f.boundaries, "boundaries", false, "also print what passes between stages, shapes and bytes")
	flags.BoolVar(&f.explain, "explain", false,
		"also print what the step's time is made of, which settings price it, and what one change each would give")
	f.registerEpochs(flags)
	flags.DurationVar(&f.limit, "time-limit", time.Minute, "how long the solver of --exact may take")
	return cmd
}

// registerTrace declares --trace with a help that begins with the given words.
func (f *runFlags) registerTrace(flags *pflag.FlagSet, help string) {
	flags.Var((*pathValue)(&f.trace), "trace",
		help+" for Perfetto (.pftrace) or chrome://tracing and PyTorch's tools (.json, .json.gz)")
}

func runRun(ctx context.Context, path string, f runFlags, std streams) error {
	if err := f.exclusive(); err != nil {
		return err
	}
	c, err := f.loadPlan(ctx, path, f.sets)
	if err != nil {
		return err
	}
	if err := f.checkTrace(path, c.Files()); err != nil {
		return err
	}
	if err := f.requestProof(c); err != nil {
		return err
	}
	name := folderName(c.Name(), f.sets)
	to := reports.RunFolder(filepath.Join("out", name), results.Predicted)
	to.Inputs = c.Files()
	folder, unwritable, err := f.writableFolder(to)
	if err != nil {
		return err
	}
	p, err := f.predict(ctx, c, std.err)
	if err != nil {
		return err
	}
	f.note(std.err, func() []string {
		return slices.Concat(c.Inputs(), c.Decisions(p.Experiment), c.MachineNotes(p.Experiment))
	})
	// Files are written before the summary is printed, so that they are complete even if the reader
	// of the summary closes it early (psim run … | head). The summary is printed even if the files
	// cannot be written.
	names, unsaved := reports.SaveRun(ctx, p.Run(), folder, f.traceFile(p.Run())...)
	if errors.Is(unsaved, context.Canceled) {
		return unsaved
	}
	err = f.print(p, std.out)
	if folder.Path != "" {
		f.warnMissingFiles(p.Run(), std.err)
	}
	if unsaved == nil && folder.Path != "" {
		f.reportWritten(std.err, strings.Join(names, ", "), folder.Path)
	}
	return failed(errors.Join(err, unwritable, unsaved))
}

// warnMissingFiles explains which of its usual files a run does not write.
func (f runFlags) warnMissingFiles(r results.Run, stderr io.Writer) {
	if f.trace == "" && r.Result.Tasks > reports.MostTracedTasks {
		fmt.Fprintf(stderr, "psim: no trace.csv is written: the run has %d tasks, more than %d; "+
			"--trace FILE.json writes a trace, and trace.csv with it\n", r.Result.Tasks, reports.MostTracedTasks)
	}
	if f.trace == "" && r.Trace != nil && r.Trace.MemoryChanges() > reports.MostMemoryChanges {
		fmt.Fprintf(stderr, "psim: no memory.csv is written: memory changes %s times, more than %s; "+
			"--trace FILE.json writes a trace, and memory.csv with it\n",
			units.FormatCount(int64(r.Trace.MemoryChanges())), units.FormatCount(reports.MostMemoryChanges))
	}
	if !r.Drawable() {
		fmt.Fprintln(stderr, "psim: no picture is drawn: the run takes no time, so there is nothing to draw")
	}
}

// predict predicts the step and adds the parts that flags ask for.
func (f runFlags) predict(ctx context.Context, c *configs.Config, stderr io.Writer) (*lib.Prediction, error) {
	predict := lib.Predict
	saves := f.out != "" && f.out != "-" || f.trace != ""
	if (f.json || f.csv) && !saves && !f.explain { // nothing needs a trace
		predict = lib.Estimate
		delayCollection()
	}
	p, err := predict(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := f.checkDevices(p.Devices()); err != nil {
		return nil, err
	}
	if f.boundaries {
		if p.Result.Boundaries, err = p.Boundaries(); err != nil {
			return nil, flagged("boundaries:", err)
		}
	}
	if err := p.AddUnsaid(ctx); err != nil {
		return nil, err
	}
	advise.FineTune(ctx, p)
	advise.Fit(ctx, p)
	if err := f.addExplanation(ctx, p, stderr); err != nil {
		return nil, err
	}
	return p, f.addEpochs(p)
}

func (f runFlags) traceFile(r results.Run) []files.File {
	if f.trace == "" {
		return nil
	}
	return []files.File{trace.TraceFile(r, f.trace)}
}

// requestProof makes the search of an order exact if --exact is given.
func (f runFlags) requestProof(c *configs.Config) error {
	switch {
	case !f.exact:
		return nil
	case c.Schedule.Name != "auto":
		return fmt.Errorf("--exact: proves the order of schedule.name = \"auto\", not of %s", c.Schedule.Name)
	case f.limit <= 0:
		return fmt.Errorf("--time-limit %v: must be more than 0, such as 30s", f.limit)
	}
	c.Exact(f.limit)
	return nil
}

// outputFolder returns the folder of --out, or else the default. Its path is empty if nothing is to be
// saved.
func (f runFlags) outputFolder(byDefault files.Folder) files.Folder {
	switch {
	case f.out == "-" || f.out == "" && (f.json || f.csv):
		return files.Folder{}
	case f.out != "":
		byDefault.Path = f.out
	}
	return f.to(byDefault)
}

// writableFolder returns the output folder if it can be written to. If the default folder cannot,
// no files are written, and unwritable is the failure to return once the result is printed.
func (f runFlags) writableFolder(byDefault files.Folder) (folder files.Folder, unwritable, err error) {
	folder = f.outputFolder(byDefault)
	if f.out != "" || folder.Path == "" {
		return folder, nil, f.checkOut(folder)
	}
	if err := folder.Check(); err != nil {
		return files.Folder{}, failure{fmt.Errorf("no files are written: %w", err)}, nil
	}
	return folder, nil, nil
}

func (f runFlags) print(p *lib.Prediction, stdout io.Writer) error {
	switch {
	case f.json:
		build, simulated := p.BuildTime.Seconds(), p.SimulationTime.Seconds()
		r := p.Result
		r.Build, r.Simulation = &build, &simulated
		return r.WriteJSON(stdout)
	case f.csv && f.shards:
		return reports.WriteShardsCSV(stdout, p.Result.Shards)
	case f.csv && f.boundaries:
		return reports.WriteBoundariesCSV(stdout, p.Result.Boundaries)
	case f.csv && f.explain:
		return reports.WriteExplanationCSV(stdout, p.Result.Explain)
	case f.csv:
		return reports.WriteResultCSV(stdout, p.Result)
	}
	if err := reports.WriteResult(stdout, p.Result); err != nil {
		return err
	}
	if f.boundaries {
		fmt.Fprintln(stdout)
		if err := reports.WriteBoundaries(stdout, p.Result.Boundaries); err != nil {
			return err
		}
	}
	if err := errors.Join(f.printExplanation(p.Result, stdout), f.printShards(p.Result, stdout)); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	return picture.Gantt(stdout, p.Trace, picture.GanttOptions{Ranks: 32})
}

// checkTrace refuses, before any work, a trace file that cannot be written or that would overwrite a
// file that the run reads or writes.
func (f *runFlags) checkTrace(config string, inputs []string) error {
	if f.trace == "" {
		return nil
	}
	run, measured := reports.RunFileNames()
	folder, base := filepath.Split(filepath.Clean(f.trace))
	inOut := f.out != "" && f.out != "-" && files.Same(filepath.Clean("./"+folder), f.out)
	ends := func(ending string) bool { return strings.HasSuffix(f.trace, ending) }
	switch {
	case !slices.ContainsFunc(trace.TraceFormats(), ends):
		return fmt.Errorf("--trace %s: must end in .json, .json.gz or .pftrace, the formats that are written", f.trace)
	case files.IsFolder(f.trace) || files.Same(f.trace, f.out):
		return fmt.Errorf("--trace %s: is a folder; name a file", f.trace)
	case folder != "" && !files.IsFolder(folder) && !inOut:
		return fmt.Errorf("--trace %s: there is no folder %s", f.trace, filepath.Clean(folder))
	case files.Same(f.trace, config):
		return fmt.Errorf("--trace %s: is the configuration; name another file", f.trace)
	case slices.ContainsFunc(inputs, func(input string) bool { return files.Same(f.trace, input) }):
		return fmt.Errorf("--trace %s: is one of the inputs; name another file", f.trace)
	case slices.Contains(run, base) || slices.Contains(measured, base):
		return fmt.Errorf("--trace %s: is the name of a file that a run writes into its folder; name another", f.trace)
	case files.WrittenBy(f.trace) != "":
		return fmt.Errorf("--trace %s: is of psim %s; name another file", f.trace, files.WrittenBy(f.trace))
	}
	if !files.IsFolder(folder) && folder != "" { // the folder of --out, which will be made
		return nil
	}
	if err := files.CheckWritable(filepath.Clean(folder)); err != nil {
		return fmt.Errorf("--trace %s: cannot be written: %s", f.trace, files.Reason(err))
	}
	return nil
}

// addExplanation adds to a prediction what the step's time is made of and what single changes would
// give, if --explain is given. Single changes are not part of the CSV on stdout.
func (f runFlags) addExplanation(ctx context.Context, p *lib.Prediction, stderr io.Writer) error {
	if !f.explain {
		return nil
	}
	e, err := p.Explain()
	if p.Result.Explain = e; err != nil || f.csv && f.out == "" {
		return err
	}
	progress := newProgress(stderr, f.quiet)
	e.WhatIf, e.Unmeasured, err = advise.WhatIf(ctx, p, func(number, of int, set []string) {
		progress.showf("change %d of %d: %v", number, of, set)
	})
	progress.clear()
	return err
}

func (f runFlags) printExplanation(r results.Result, stdout io.Writer) error {
	if !f.explain {
		return nil
	}
	fmt.Fprintln(stdout)
	err := reports.WriteExplanation(stdout, r.Explain)
	fmt.Fprintln(stdout)
	return errors.Join(err, reports.WriteWhatIf(stdout, r))
}
