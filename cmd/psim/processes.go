package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psim/configs"
	"psim/exec/processes"
	"psim/schedules/collective"
)

// apart keeps an error of a process that is not the first from the user if the first
// tells the same: of flags and settings. What this process alone may have found, such as a
// file that is not there, is told when the others have had the time to end it.
func apart(err error) error {
	switch {
	case err == nil || errors.As(err, new(said)):
		return err
	case errors.As(err, new(unjoined)) || errors.As(err, new(*fs.PathError)):
		time.Sleep(2 * time.Second)
		return err
	}
	return said{err}
}

// unjoined marks an error of coming together with the other processes.
type unjoined struct{ error }

func (u unjoined) Unwrap() error { return u.error }

// said marks an error that the user was told already, or that another process tells.
type said struct{ error }

func (s said) Unwrap() error { return s.error }

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
// started for, or starts them. One of them tells the user of an error: the first,
// unless it is lost.
func (f *execFlags) inProcesses(ctx context.Context, ranks int, run func() error) error {
	f.Abandon = f.abandon
	args, _ := ctx.Value(arguments{}).([]string)
	o := processes.Options{Processes: f.processes, Arguments: args, Ranks: ranks, Stall: f.Stall}
	if err := o.Check(); err != nil {
		return err
	}
	w, err := processes.Open(ctx, o)
	if err != nil {
		return failed(unjoined{err})
	}
	if w == nil {
		return run()
	}
	f.World = w
	w.WhenLate(f.abandon)
	if err = run(); err != nil {
		w.Abort(err)
		err = f.told(err)
	}
	w.Close() // not deferred: a panic must not look like a farewell
	return err
}

// abandon ends this process, which cannot be stopped otherwise, and those that it is
// the first of.
func (f *execFlags) abandon(cause error) {
	if f.World == nil {
		tell(cause, f.voice)
	} else {
		f.World.Abort(cause)
		f.told(cause)
		f.World.Kill()
	}
	os.Exit(exitFailed)
}

// told tells the user why a run of several processes has ended, where it is for this
// one to do so.
func (f *execFlags) told(err error) error {
	if cause := f.World.Cause(); errors.Is(err, context.Canceled) && cause != nil {
		err = cause
	}
	if errors.As(err, new(*processes.LostError)) || errors.As(err, new(*processes.AbortError)) {
		err = failed(err)
	}
	if f.World.Speaks() {
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
