package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psim/configs"
	"psim/internal/units"
	"psim/reports"
	"psim/results/rankings"
	"psim/sweep"
)

type sweepFlags struct {
	outputFlags
	targetFlags
	submitFlags
	vary  []string
	shard string
}

const sweepManual = `sweep predicts CONFIG with every combination of the values of some settings, and
prints a row for each: the first --vary changes slowest. A list or a text with a
comma is one value: --vary schedule.partition=[1,2],[2,1].

The efficiency is the throughput per device against that of the point with the
fewest devices whose other values are the same. Below the table is the point of the
highest throughput that fits: in samples, in tokens if sequences differ in length, or
in microbatches if there is no [batch]. An impossible combination (3 stages
of a network with 2 layers) is an empty row, with the reason below the table; the
exit code is 1 only if all are impossible. A value that is wrong in any combination
is refused at the start.

--out writes sweep.jsonl (a line for each point, as psim plot sweep reads it),
sweep.csv, sweep.png and sweep.json. Finished points are kept there one by one:
after an interrupt or a kill the same command resumes from there, and
points whose configuration has not changed are never computed again.

--shard I/N computes the I-th of N parts and writes into a folder of its own in
--out, for job arrays; psim merge joins them. --shard auto takes I and N from a Slurm
job array, auto/N takes I from an indexed Kubernetes job. --submit slurm submits such an
array and the merge, for up to 20,000 points a shard (docs/clusters.md).`

func newSweep() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep CONFIG --vary KEY=V1,V2…",
		Short: "predict every combination of the values of some settings, on all cores",
		Long:  sweepManual,
		Example: `  psim sweep gpipe --vary schedule.microbatches=4,8,16
  psim sweep gpipe --vary schedule.name=gpipe,1f1b --vary schedule.stages=2,4 --out out/both
  psim sweep gpipe --vary parallel.data=1,2,4 --shard 1/2 --out out/parts
  psim sweep gpipe --vary parallel.data=1,2,4 --shard 2/2 --out out/parts
  psim merge out/parts --out out/whole`,
		Args:              exactArgs(1, "one CONFIG, "+configArgument),
		ValidArgsFunction: completeConfig,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.targetFlags.check(cmd.Flags()); err != nil {
				return err
			}
			if err := f.submitFlags.check(cmd.Flags(), f.out); err != nil {
				return err
			}
			if f.engine != "" {
				return f.submitSweep(cmd, args[0])
			}
			return runSweep(cmd.Context(), args[0], f, streamsOf(cmd))
		},
	}
	f.register(cmd.Flags())
	f.submitFlags.register(cmd.Flags())
	f.targetFlags.register(cmd)
	return cmd
}

func (f *sweepFlags) register(flags *pflag.FlagSet) {
	f.registerInput(flags)
	f.registerVerbose(flags)
	f.registerOutput(flags, outputHelp{
		json: "print all results as one JSON object and nothing else",
		csv:  "print one row per point as CSV and nothing else",
		out:  "folder to write to, and to resume from",
	})
	flags.StringArrayVar(&f.vary, "vary", nil, "values of a setting: KEY=V1,V2… with a dotted key; may be repeated")
	flags.StringVar(&f.shard, "shard", "", "compute only the I-th of N parts: I/N, auto or auto/N")
}

// submitSweep submits a sweep as a job array, after it has checked what a shard would check.
func (f sweepFlags) submitSweep(cmd *cobra.Command, path string) error {
	o, err := f.options(streamsOf(cmd).err)
	if err != nil {
		return err
	}
	c, err := f.load(cmd.Context(), path, f.sets)
	if err != nil {
		return err
	}
	to := reports.SweepFolder(o.Folder)
	to.Inputs = c.Files()
	if err := f.checkOut(to); err != nil {
		return err
	}
	o.Shard = rankings.Shard{Number: 1, Of: f.shards}
	if err := sweep.Check(o); err != nil {
		return variationError(err, o.Vary)
	}
	return f.submit(cmd, path, c)
}

func runSweep(ctx context.Context, path string, f sweepFlags, std streams) error {
	f.clearDash()
	if err := f.exclusive(); err != nil {
		return err
	}
	o, err := f.options(std.err)
	if err != nil {
		return err
	}
	c, err := f.load(ctx, path, f.sets)
	if err != nil {
		return err
	}
	to := reports.SweepFolder(o.Folder)
	to.Made, to.Inputs = f.shard != "", c.Files()
	if err := f.checkOut(to); err != nil {
		return err
	}
	f.note(std.err, c.Inputs)
	p, start := newProgress(std.err, f.quiet), time.Now()
	o.Progress = func(done, of int) { p.show(remaining(done, of, time.Since(start))) }
	s, err := sweep.Run(ctx, c, o)
	p.clear()
	if s == nil {
		return variationError(err, o.Vary)
	}
	f.reportReuse(std.err, s, o.Folder)
	if err != nil {
		if s.Kept > 0 && f.out != "" && s.Unsaved == nil {
			fmt.Fprintf(std.err, "psim: %d of %s are kept for the same command in %s\n",
				s.Kept, units.Plural(len(s.Points), "point"), visible(o.Folder))
		}
		return errors.Join(s.Unsaved, err)
	}
	err = f.printSweep(s.Sweep, std)
	if s.Wrote != nil && s.Unsaved == nil {
		f.reportWritten(std.err, strings.Join(s.Wrote, ", "), o.Folder)
	}
	return errors.Join(err, failed(s.Unsaved))
}

// options returns the options of the library for the flags.
func (f sweepFlags) options(stderr io.Writer) (o sweep.Options, err error) {
	if len(f.vary) == 0 {
		return o, errors.New("--vary is missing: say what varies, such as --vary schedule.microbatches=4,8,16")
	}
	if o.Vary, err = parseVariations(f.vary); err != nil {
		return o, err
	}
	o.Version, o.Folder, o.Overwrite = versionName(), f.out, f.overwrite
	if f.shard == "" {
		if task := os.Getenv("SLURM_ARRAY_TASK_ID"); task != "" && !f.quiet {
			fmt.Fprintf(stderr, "psim: this is task %s of a job array, and computes all points; "+
				"--shard auto would compute its part\n", task)
		}
		return o, nil
	}
	if o.Shard, err = rankings.ParseShard(f.shard, os.LookupEnv); err != nil {
		return o, fmt.Errorf("--shard %w", err)
	}
	if f.out == "" {
		return o, errors.New("--shard: needs --out, for psim merge to find it")
	}
	o.Folder = filepath.Join(f.out, o.Shard.Folder())
	return o, nil
}

// parseVariations reads the values of --vary.
func parseVariations(texts []string) (list []rankings.Variation, err error) {
	for _, text := range texts {
		key, values, ok := strings.Cut(text, "=")
		if !ok || !strings.Contains(key, ".") {
			return nil, fmt.Errorf("--vary %s: must be KEY=V1,V2… with a dotted key, "+
				"such as schedule.microbatches=4,8,16", text)
		}
		v := rankings.Variation{Key: strings.TrimSpace(key)}
		if v.Values, err = configs.SplitValues(values); err != nil {
			return nil, fmt.Errorf("--vary %s: %w", text, err)
		}
		list = append(list, v)
	}
	return list, nil
}

// variationError names the flag --vary in an error about a setting that it gave. The flag --set is
// named where an error is printed.
func variationError(err error, vary []rankings.Variation) error {
	var e *configs.Error
	varied := func(v rankings.Variation) bool {
		return slices.ContainsFunc(v.Values, func(value string) bool { return e.Label == v.Key+"="+value })
	}
	if errors.As(err, &e) && e.Override && slices.ContainsFunc(vary, varied) {
		e.Label, e.Override = "--vary "+e.Label, false
		return e
	}
	return err
}

// reportReuse prints which points in the folder were used, and which are computed again.
func (f sweepFlags) reportReuse(stderr io.Writer, s *sweep.Outcome, folder string) {
	if f.quiet {
		return
	}
	if s.Reused > 0 {
		fmt.Fprintf(stderr, "psim: %d of %s were there already\n", s.Reused, units.Plural(len(s.Points), "point"))
	}
	if s.Damaged > 0 {
		fmt.Fprintf(stderr, "psim: %s in %s cannot be trusted; the points are computed again\n",
			units.Plural(s.Damaged, "line"), visible(filepath.Join(folder, "sweep.journal")))
	}
	if s.Stale > 0 {
		fmt.Fprintf(stderr, "psim: %s were there for another configuration or version of psim, "+
			"and are computed again\n", units.Plural(s.Stale, "point"))
	}
}

// remaining says how far a sweep is, and how long the rest will take at the same rate.
func remaining(done, of int, took time.Duration) string {
	left := time.Duration(float64(took) / float64(done) * float64(of-done))
	return fmt.Sprintf("%d of %s, about %s left", done, units.Plural(of, "point"), left.Round(time.Second))
}

// printSweep prints a sweep in the form that the flags ask for. A sweep in which every combination is
// impossible is a failure.
func (f outputFlags) printSweep(s rankings.Sweep, std streams) error {
	var err error
	switch {
	case f.json:
		err = s.WriteJSON(std.out)
	case f.csv:
		err = reports.WriteSweepCSV(std.out, s)
	default:
		err = reports.WriteSweep(std.out, s)
	}
	for _, p := range s.Points {
		if p.Error == "" {
			return err
		}
	}
	if len(s.Points) == 0 { // a shard may be empty
		return err
	}
	return errors.Join(err, failure{errors.New("none of the combinations is possible")})
}
