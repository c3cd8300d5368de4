package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"psim/configs"
	"psim/exec/processes"
)

// apart is how long a process that is not the first waits before it tells what is
// wrong: mostly the first has told the same by then, and all have ended.
const apart = 2 * time.Second

// said marks an error that the user was told already, or that another process tells.
type said struct{ error }

func (s said) Unwrap() error { return s.error }

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
	w, err := processes.Open(ctx, processes.Options{Processes: f.processes, Arguments: args, Ranks: ranks, Stall: f.Stall})
	if err != nil {
		return err
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
	cause := f.World.Cause()
	if errors.Is(err, context.Canceled) && cause != nil {
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
