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
	trace string
	exact bool
	limit time.Duration
	// boundaries asks for what passes between stages.
	boundaries bool
	// explain asks what the time is made of, and for what one change each would give.
	explain bool
	epochs  int
	shards  bool // whether to print the samples of every replica
	strided bool // for those
}

const runManual = `run simulates one training step and predicts its time, bubble, memory and
communication. CONFIG is a TOML file or the bare name of an embedded example
(psim list examples).

It prints a summary and a timeline, and writes result.json, timeline.png,
timeline.svg, memory.png, trace.csv and memory.csv into a folder: --out, or
out/NAME, with what was --set appended. With --json or --csv it writes files
only if --out is given. With --out - it writes none. "psim help config" lists
all settings.

--boundaries adds what passes between neighbouring stages for one microbatch, shapes
and bytes, forward and backward; with --csv it takes the place of the ranks.

--explain adds what the time of the step is made of, by operation: the mean of all ranks
and the chain of tasks that determines it, each of which adds up to the step, and the
settings by which every class is priced; and what one change each would give, by
simulation: a link or a rate of the device twice as fast, other microbatches, another
recomputation, another schedule. What changes nothing is left out. With --csv what the
time is made of takes the place of the ranks.

With data.samples, the size of the data set, it tells the time of an epoch as well: of
as many steps as take so many samples. The last one, for which fewer may be left, is
filled up, so that it takes as long as the others. --epochs N adds up N epochs, and
--shards adds which samples every replica trains on, in place of the ranks with --csv.

With schedule.name = "auto" the order of F, I and W is searched for: the one with
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
  psim run my.toml --out results/my --trace my.pftrace`,
		Args:              exactly(1, "one CONFIG, a file or the name of an example"),
		ValidArgsFunction: completeExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRun(cmd.Context(), args[0], f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.registerInput(flags)
	f.registerVerbose(flags)
	f.registerOutput(flags, "print the result as one JSON object and nothing else", "print one row per rank as CSV and nothing else",
		"folder to write the result and pictures to; - for none (default out/NAME)")
	flags.Var((*named)(&f.trace), "trace", "also write the timeline for Perfetto (.pftrace) or chrome://tracing and PyTorch's tools (.json, .json.gz)")
	flags.BoolVar(&f.exact, "exact", false, "let the solver cbc prove the order of schedule.name = \"auto\", for small pipelines")
	flags.BoolVar(&f.boundaries, "boundaries", false, "also say what passes between stages, shapes and bytes")
	flags.BoolVar(&f.explain, "explain", false, "also say what the step's time is made of, which settings price it, and what one change each would give")
	f.registerEpochs(flags)
	flags.DurationVar(&f.limit, "time-limit", time.Minute, "how long the solver of --exact may take")
	return cmd
}

func runRun(ctx context.Context, path string, f runFlags, stdout, stderr io.Writer) error {
	if err := f.exclusive(); err != nil {
		return err
	}
	c, err := lib.Load(path, f.sets...)
	if err != nil {
		return err
	}
	if err := f.checkTrace(path); err != nil {
		return err
	}
	if err := f.prove(c); err != nil {
		return err
	}
	folder, unwritable, err := f.folder(reports.RunFolder(filepath.Join("out", folderName(c.Name(), f.sets)), results.Predicted))
	if err != nil {
		return err
	}
	p, err := f.predict(ctx, c, stderr)
	if err != nil {
		return err
	}
	f.note(stderr, func() []string {
		return slices.Concat(c.Inputs(), c.Decisions(p.Experiment), c.MachineNotes(p.Experiment))
	})
	// Files come before the summary, so that a reader of it who leaves early
	// (psim run … | head) still gets them. That they cannot be written does not
	// keep the summary back.
	names, written := reports.SaveRun(ctx, p.Run(), folder.Path, f.traceFile(p.Run())...)
	if errors.Is(written, context.Canceled) {
		return written
	}
	err = f.print(p, stdout)
	if folder.Path != "" {
		f.tellMissing(p.Run(), stderr)
	}
	if written == nil && folder.Path != "" {
		f.wrote(stderr, strings.Join(names, ", "), folder.Path)
	}
	return failed(errors.Join(err, unwritable, written))
}

// tellMissing says which files of a run there are not, and why.
func (f runFlags) tellMissing(r results.Run, stderr io.Writer) {
	if f.trace == "" && r.Result.Tasks > reports.MostTracedTasks {
		fmt.Fprintf(stderr, "psim: no trace.csv is written: the run has %d tasks, more than %d; --trace FILE.json writes a trace, and trace.csv with it\n", r.Result.Tasks, reports.MostTracedTasks)
	}
	if f.trace == "" && r.Trace != nil && r.Trace.MemoryChanges() > reports.MostMemoryChanges {
		fmt.Fprintf(stderr, "psim: no memory.csv is written: memory changes %s times, more than %s; --trace FILE.json writes a trace, and memory.csv with it\n", units.FormatCount(int64(r.Trace.MemoryChanges())), units.FormatCount(reports.MostMemoryChanges))
	}
	if !r.Drawable() {
		fmt.Fprintln(stderr, "psim: no picture is drawn: the run takes no time, so there is nothing to draw")
	}
}

// predict predicts, and adds what is asked for.
func (f runFlags) predict(ctx context.Context, c *configs.Config, stderr io.Writer) (*lib.Prediction, error) {
	predict := lib.Predict
	if (f.json || f.csv) && (f.out == "" || f.out == "-") && f.trace == "" && !f.explain { // nobody sees a trace
		predict = lib.Estimate
		collectLate()
	}
	p, err := predict(ctx, c)
	if err != nil {
		return nil, err
	}
	if f.boundaries {
		if p.Result.Boundaries, err = p.Boundaries(); err != nil {
			return nil, flagged("boundaries:", err)
		}
	}
	advise.Fit(ctx, p)
	if err := f.explanation(ctx, p, stderr); err != nil {
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

// prove asks for an exact search, where --exact does.
func (f runFlags) prove(c *configs.Config) error {
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

// into returns the folder of --out, by default another, whose path is empty for none.
func (f runFlags) into(to files.Folder) files.Folder {
	switch {
	case f.out == "-" || f.out == "" && (f.json || f.csv):
		return files.Folder{}
	case f.out != "":
		to.Path = f.out
	}
	return to
}

// folder returns that folder, if it can be written to. If the default, which nobody has asked
// for, cannot, there are no files, and that is a failure only once the result is printed.
func (f runFlags) folder(to files.Folder) (folder files.Folder, unwritable, err error) {
	folder = f.into(to)
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
	if a := accuracy(p.Config); a != nil && p.Experiment.Staged != nil {
		fmt.Fprintf(stdout, "how sure: %s\n", a.Text())
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

// checkTrace refuses a trace that cannot be written, or would overwrite what the run reads or
// writes, before any work.
func (f *runFlags) checkTrace(config string) error {
	if f.trace == "" {
		return nil
	}
	run, measured := reports.RunFileNames()
	folder, base := filepath.Split(filepath.Clean(f.trace))
	inOut := f.out != "" && f.out != "-" && files.Same(filepath.Clean("./"+folder), f.out)
	switch {
	case !slices.ContainsFunc(trace.TraceFormats(), func(end string) bool { return strings.HasSuffix(f.trace, end) }):
		return fmt.Errorf("--trace %s: must end in .json, .json.gz or .pftrace, the formats that are written", f.trace)
	case files.IsFolder(f.trace) || files.Same(f.trace, f.out):
		return fmt.Errorf("--trace %s: is a folder; name a file", f.trace)
	case folder != "" && !files.IsFolder(folder) && !inOut:
		return fmt.Errorf("--trace %s: there is no folder %s", f.trace, filepath.Clean(folder))
	case files.Same(f.trace, config):
		return fmt.Errorf("--trace %s: is the configuration; name another file", f.trace)
	case slices.Contains(run, base) || slices.Contains(measured, base):
		return fmt.Errorf("--trace %s: is the name of a file that a run writes into its folder; name another", f.trace)
	}
	if !files.IsFolder(folder) && folder != "" { // that of --out, which is yet to be made
		return nil
	}
	if err := files.CheckWritable(filepath.Clean(folder)); err != nil {
		return fmt.Errorf("--trace %s: cannot be written: %s", f.trace, files.Reason(err))
	}
	return nil
}
