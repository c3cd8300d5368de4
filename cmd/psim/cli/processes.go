package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psim/configs"
	"psim/exec/cluster"
	"psim/schedules/collective"
)

// apart keeps an error of a process that is not the first from the user if the first
// tells the same, as it does of flags and settings, and whoever started them then ends this
// one. What this one alone has found, such as a file that is not there, it tells.
func apart(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.As(err, new(said)):
		return err
	case errors.Is(err, context.Canceled): // as the first was
		return said{err}
	}
	select {
	case <-ctx.Done():
		return said{err}
	case <-time.After(notice):
	}
	host, _ := os.Hostname()
	return fmt.Errorf("process %d on %s: %w", cluster.Launched(os.Getenv).Rank, host, err)
}

// unmet keeps an interrupt of the first process from the user that came before it had met
// the others: their launcher ends it when one of them has failed, and that one tells why.
func unmet(err error) error {
	if cluster.Launched(os.Getenv).Size > 1 && errors.Is(err, context.Canceled) {
		return said{err}
	}
	return err
}

// said marks an error that the user was told already, or that another process tells.
type said struct{ error }

func (s said) Unwrap() error { return s.error }

// onlyOne refuses several processes of a command that does its work in one, so that each
// would do and print the same.
func onlyOne(cmd *cobra.Command) error {
	l := cluster.Launched(os.Getenv)
	shard := cmd.Flags().Lookup("shard")
	switch {
	case l.Size == 0, !slices.Contains([]string{"run", "search", "sweep", "validate", "calibrate", "reproduce"}, cmd.Name()), shard != nil && shard.Changed:
		return nil
	case l.Rank > 0:
		return apart(cmd.Context(), fmt.Errorf("psim %s does its work in one process, and %s has started %d; psim exec is what runs over several", cmd.Name(), l.Name, l.Size))
	case shard != nil:
		return fmt.Errorf("%s has started %d processes, and each would do the same: start psim %s without %s, or give every process a part with --shard I/N", l.Name, l.Size, cmd.Name(), l.Name)
	}
	return fmt.Errorf("%s has started %d processes, and each would do the same: start psim %s without %s; psim exec is what runs over several", l.Name, l.Size, cmd.Name(), l.Name)
}

// run runs a collective by itself or configurations, of several processes as the first
// or not.
func (f execFlags) run(cmd *cobra.Command, args []string, first bool) error {
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := f.given(cmd); err != nil {
		return err
	}
	if err := f.validate(); err != nil {
		return err
	}
	f.voice = stderr
	if !first {
		f.follow()
		stdout, stderr = io.Discard, io.Discard
	}
	if isCollective(args) {
		return runCollective(cmd.Context(), cmd.Flags(), args[0], f, stdout, stderr)
	}
	if cmd.Flags().Changed("sizes") {
		return fmt.Errorf("--sizes: is of a collective by itself: psim exec %s --gpus 2 --sizes 8B-64MiB; the collectives are %s", collective.RingAllReduce, strings.Join(collective.Names(), ", "))
	}
	return runExec(cmd.Context(), args, f, stdout, stderr)
}

// follow makes a process that is not the first print and write nothing.
func (f *execFlags) follow() {
	f.out, f.trace, f.gradients, f.quiet = "-", "", "", true
}

// leastRanks counts the ranks of the smallest configuration.
func leastRanks(list []*configs.Config) int {
	least := list[0].Ranks()
	for _, c := range list {
		least = min(least, c.Ranks())
	}
	return int(least)
}

// inProcesses runs an exec over so many ranks at least in the processes that it is
// started for, or starts them, unless check finds that this machine cannot run it. One of
// them tells the user of an error: the first, unless it is lost.
func (f *execFlags) inProcesses(ctx context.Context, ranks int, check, run func() error) error {
	f.Measure.Train.Run.Abandon = f.abandon
	args, _ := ctx.Value(arguments{}).([]string)
	o := cluster.Options{Processes: f.processes, Arguments: args, Ranks: ranks, Stall: f.Measure.Train.Run.Stall}
	o.Usage = func(err error) bool { return exitCode(err) == exitUsage }
	if err := o.Check(); err != nil {
		return err
	}
	if f.processes > 1 && cluster.First() {
		if err := check(); err != nil {
			return err
		}
	}
	p := newProgress(f.voice, f.quiet || f.json || f.csv)
	if f.processes > 1 {
		p.say("starting %d processes", f.processes)
	}
	w, err := cluster.Open(ctx, o)
	p.clear()
	if err != nil {
		return failed(err)
	}
	if w == nil {
		return run()
	}
	f.Measure.Train.Run.World = w
	w.WhenLate(f.abandon)
	if err = run(); err != nil {
		if !errors.As(err, new(failure)) { // one of what all have ended well leaves the others alone
			w.Abort(err)
		}
		err = f.told(err)
	}
	w.Close() // not deferred: a panic must not look like a farewell
	return err
}

// world returns the processes of the run; nil for this one alone.
func (f *execFlags) world() *cluster.World { return f.Measure.Train.Run.World }

// abandon ends this process, which cannot be stopped otherwise, and those that it is
// the first of.
func (f *execFlags) abandon(cause error) {
	if f.world() == nil {
		tell(cause, f.voice)
	} else {
		f.world().Abort(failed(cause))
		f.told(cause)
		f.world().Kill()
	}
	os.Exit(exitFailed)
}

// told tells the user why a run of several processes has ended, where it is for this
// one to do so.
func (f *execFlags) told(err error) error {
	if cause := f.world().Cause(); errors.Is(err, context.Canceled) && cause != nil {
		err = cause
	}
	var aborted *cluster.AbortError
	switch isAborted := errors.As(err, &aborted); {
	case isAborted && aborted.Usage && aborted.Process.Host == f.world().Processes()[f.world().Rank].Host:
		err = errors.New(aborted.Text) // which this process would have found, too
	case isAborted && !aborted.Usage, errors.As(err, new(*cluster.LostError)):
		err = failed(err)
	}
	if f.world().Speaks() {
		tell(err, f.voice)
	}
	return said{err}
}

// tell writes an error for the user.
func tell(err error, stderr io.Writer) {
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "psim: interrupted")
	} else {
		fmt.Fprintln(stderr, "psim:", visible(worded(err)))
	}
}
