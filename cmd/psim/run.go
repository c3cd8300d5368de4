package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psim/configs"
	"psim/reports"
)

// runFlags are the flags of psim run.
type runFlags struct {
	sets      []string
	json, csv bool
	out       string
	trace     string
	quiet     bool
	exact     bool
	limit     time.Duration
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run CONFIG",
		Short: "simulate: predict step time, bubble, memory and communication",
		Long: `run simulates one training step and predicts its time, bubble, memory and
communication. CONFIG is a TOML file or the bare name of an embedded example
(psim list examples).

It prints a summary and a timeline, and writes result.json, timeline.png,
timeline.svg, memory.png, trace.csv and memory.csv into a folder: --out, or
out/NAME, with what was --set appended. With --json or --csv it writes files
only if --out is given. With --out - it writes none. "psim help config" lists
all settings.

With schedule.name = "auto" the order of F, I and W is searched for: the one with
the shortest span, then makespan, under the memory of a rank. --exact also calls
the solver cbc (Debian's coinor-cbc), which proves the span of small pipelines.
"auto-v" searches in the same way for two stages per rank, in the V of zbv.`,
		Example: `  psim run gpipe
  psim run gpipe --set schedule.name=1f1b --set schedule.microbatches=16
  psim run configs/course-timeline.toml --json
  psim run my.toml --out results/my --trace my.json`,
		Args: exactly(1, "one CONFIG, a file or the name of an example"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return configs.Examples(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRun(cmd.Context(), args[0], f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.sets, "set", nil, "change a setting: KEY=VALUE with a dotted key; may be repeated")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object and nothing else")
	flags.BoolVar(&f.csv, "csv", false, "print one row per rank as CSV and nothing else")
	flags.StringVar(&f.out, "out", "", "folder to write the result and pictures to; - for none (default out/NAME)")
	flags.StringVar(&f.trace, "trace", "", "also write the timeline for Perfetto or chrome://tracing: a .json or .json.gz file")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	flags.BoolVar(&f.exact, "exact", false, "let the solver cbc prove the order of schedule.name = \"auto\", for small pipelines")
	flags.DurationVar(&f.limit, "time-limit", time.Minute, "how long the solver of --exact may take")
	return cmd
}

func runRun(ctx context.Context, path string, f runFlags, stdout, stderr io.Writer) error {
	if f.json && f.csv {
		return errors.New("--json and --csv exclude each other: stdout holds one of them")
	}
	c, err := configs.Load(path, f.sets...)
	if err != nil {
		return err
	}
	if err := f.checkTrace(path); err != nil {
		return err
	}
	if err := f.prove(c); err != nil {
		return err
	}
	e, err := simulate(ctx, c)
	if err != nil {
		return err
	}
	e.advise(ctx)
	folder, err := f.folder(c.Name(), stderr)
	if err != nil {
		return err
	}
	// Files come before the summary, so that a reader of it who leaves early
	// (psim run … | head) still gets them.
	names, err := f.write(ctx, e, folder)
	if err != nil {
		return failure{err}
	}
	if err := f.print(e, stdout); err != nil {
		return failure{err}
	}
	if folder != "" && !f.quiet {
		fmt.Fprintf(stderr, "wrote %s in %s\n", strings.Join(names, ", "), folder)
	}
	return nil
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

// folder prepares the folder that files go to; empty for none. That the
// default one cannot be made is worth a warning, not a failure.
func (f runFlags) folder(name string, stderr io.Writer) (string, error) {
	switch {
	case f.out == "-" || f.out == "" && (f.json || f.csv):
		return "", nil
	case f.out != "":
		if name := foreign(f.out); name != "" {
			return "", fmt.Errorf("--out %s: holds a %s that psim has not written; name another folder", f.out, name)
		}
		return f.out, checkFolder(f.out)
	}
	folder := filepath.Join("out", folderName(name, f.sets))
	if err := checkFolder(folder); err != nil {
		fmt.Fprintf(stderr, "psim: no files are written: %v\n", err)
		return "", nil
	}
	return folder, nil
}

// folderName joins a configuration's name and what was set, so
// that variants of one file do not overwrite each other.
func folderName(name string, sets []string) string {
	for _, s := range sets {
		name += "-" + s
	}
	safe := func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || r == '=' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}
	name = strings.TrimLeft(strings.Map(safe, name), ".")
	const longest = 150
	switch {
	case name == "":
		return "run"
	case len(name) > longest:
		h := fnv.New64a()
		h.Write([]byte(strings.Join(sets, "\n")))
		return fmt.Sprintf("%s-%x", name[:longest], h.Sum64())
	}
	return name
}

// print writes the result to stdout in the wanted form.
func (f runFlags) print(e *experiment, stdout io.Writer) error {
	switch {
	case f.json:
		build, simulated := e.build.Seconds(), e.sim.Seconds()
		r := e.result
		r.Build, r.Simulation = &build, &simulated
		return r.WriteJSON(stdout)
	case f.csv:
		return reports.WriteResultCSV(stdout, e.result)
	}
	if err := reports.WriteTable(stdout, e.result); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	return reports.Gantt(stdout, e.trace, reports.GanttOptions{Ranks: 32})
}

// write puts all files of a run in their places, and returns their names.
func (f runFlags) write(ctx context.Context, e *experiment, folder string) ([]string, error) {
	var files []file
	var names, folders []string
	if folder != "" {
		folders = []string{folder}
		for _, file := range e.files() {
			names = append(names, file.path)
			file.path = filepath.Join(folder, file.path)
			files = append(files, file)
		}
	}
	if f.trace != "" {
		write := reports.WriteChrome
		if strings.HasSuffix(f.trace, ".gz") {
			write = reports.WriteChromeGzip
		}
		files = append(files, file{f.trace, func(w io.Writer) error { return write(w, e.trace, reports.AllRanks) }})
	}
	earlier := earlierResult(folder)
	if err := writeFiles(ctx, files, folders...); err != nil {
		return nil, err
	}
	return names, removeStale(folder, names, earlier)
}

// files lists what belongs to a run; a picture only if there is something to
// draw. The result comes last, so that a folder with a result is complete.
func (e *experiment) files() []file {
	var list []file
	title := pictureTitle(e.result, e.trace)
	if e.trace.End() > 0 {
		draw := func(format string) func(io.Writer) error {
			return func(w io.Writer) error {
				return reports.Timeline(w, format, title, reports.Panel{Trace: e.trace})
			}
		}
		list = append(list, file{"timeline.png", draw(reports.PNG)}, file{"timeline.svg", draw(reports.SVG)})
	}
	list = append(list, file{"trace.csv", func(w io.Writer) error { return reports.WriteTraceCSV(w, e.trace) }})
	if e.usesMemory() {
		curves := reports.MemoryCurves(e.trace)
		figure := reports.MemoryFigure{Title: "memory  ·  " + title, Curves: curves, End: e.trace.End(), Capacity: e.plan.Capacity}
		list = append(list,
			file{"memory.png", func(w io.Writer) error { return reports.Memory(w, reports.PNG, figure) }},
			file{"memory.csv", func(w io.Writer) error { return reports.WriteMemoryCSV(w, curves) }})
	}
	return append(list, file{"result.json", func(w io.Writer) error { return e.result.WriteJSON(w) }})
}

// usesMemory reports whether any memory was modelled.
func (e *experiment) usesMemory() bool {
	for _, r := range e.result.Ranks {
		if r.PeakMemory > 0 {
			return true
		}
	}
	return false
}

// checkTrace refuses a trace that cannot be written, or would overwrite what
// the run reads or writes, before any work.
func (f runFlags) checkTrace(config string) error {
	if f.trace == "" {
		return nil
	}
	folder, base := filepath.Split(filepath.Clean(f.trace))
	inOut := f.out != "" && f.out != "-" && samePath(filepath.Clean("./"+folder), f.out)
	switch {
	case !strings.HasSuffix(f.trace, ".json") && !strings.HasSuffix(f.trace, ".json.gz"):
		return fmt.Errorf("--trace %s: must end in .json or .json.gz, the formats that are written", f.trace)
	case isFolder(f.trace) || samePath(f.trace, f.out):
		return fmt.Errorf("--trace %s: is a folder; name a file", f.trace)
	case folder != "" && !isFolder(folder) && !inOut:
		return fmt.Errorf("--trace %s: there is no folder %s", f.trace, filepath.Clean(folder))
	case samePath(f.trace, config):
		return fmt.Errorf("--trace %s: is the configuration; name another file", f.trace)
	case slices.Contains(runFiles[:], base) || slices.Contains(execOnly, base):
		return fmt.Errorf("--trace %s: is the name of a file that a run writes into its folder; name another", f.trace)
	}
	if !isFolder(folder) && folder != "" { // that of --out, which is yet to be made
		return nil
	}
	if err := checkWritable(filepath.Clean(folder)); err != nil {
		return fmt.Errorf("--trace %s: cannot be written: %s", f.trace, reason(err))
	}
	return nil
}

// samePath reports whether two paths name the same file, existing or not.
func samePath(a, b string) bool {
	absoluteA, errA := filepath.Abs(a)
	absoluteB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && a != "" && b != "" && absoluteA == absoluteB
}
