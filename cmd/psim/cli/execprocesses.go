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

// muteFollower marks an error of a later process as reported if the first process reports the same
// error. That is so for flags and settings: their launcher ends this process soon after the first one
// has failed. An error that only this process finds, such as a missing file, is to be reported.
func muteFollower(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.As(err, new(reported)):
		return err
	case errors.Is(err, context.Canceled): // the first process was interrupted, too
		return reported{err}
	}
	select {
	case <-ctx.Done():
		return reported{err}
	case <-time.After(noticeDelay):
	}
	host, _ := os.Hostname()
	return fmt.Errorf("process %d on %s: %w", cluster.Launched(os.Getenv).Rank, host, err)
}

// muteEarlyInterrupt marks an interrupt of the first process as reported if it came before the
// process had connected to the others: then the launcher ends it because another process has failed,
// which reports the reason.
func muteEarlyInterrupt(err error) error {
	if cluster.Launched(os.Getenv).Size > 1 && errors.Is(err, context.Canceled) {
		return reported{err}
	}
	return err
}

// singleProcessVerbs are the verbs that compute much, and all of it in one process.
var singleProcessVerbs = []string{"run", "search", "sweep", "validate", "calibrate", "reproduce"}

// refuseLaunched refuses a verb that works in one process if a launcher has started several: each
// would compute and print the same.
func refuseLaunched(cmd *cobra.Command) error {
	l := cluster.Launched(os.Getenv)
	shard := cmd.Flags().Lookup("shard")
	const only = "only psim exec runs over several"
	switch {
	case l.Size == 0, !slices.Contains(singleProcessVerbs, cmd.Name()), shard != nil && shard.Changed:
		return nil
	case l.Rank > 0:
		return muteFollower(cmd.Context(), fmt.Errorf("psim %s does its work in one process, and %s has started %d; %s",
			cmd.Name(), l.Name, l.Size, only))
	case shard != nil:
		return fmt.Errorf("%s has started %d processes, and each would do the same: start psim %s without %s, "+
			"or give every process a part with --shard I/N", l.Name, l.Size, cmd.Name(), l.Name)
	}
	return fmt.Errorf("%s has started %d processes, and each would do the same: start psim %s without %s; %s",
		l.Name, l.Size, cmd.Name(), l.Name, only)
}

// run runs a collective by itself, or configurations. Of several processes only the first prints
// results.
func (f execFlags) run(cmd *cobra.Command, args []string, first bool) error {
	std := streamsOf(cmd)
	if err := f.checkGiven(cmd.Flags()); err != nil {
		return err
	}
	if err := errors.Join(f.validate(), f.checkEngine(cmd.Flags())); err != nil {
		return err
	}
	f.errorOut, f.wait = std.err, f.waiting(std.err)
	if !first {
		f.silence()
		std = streams{out: io.Discard, err: io.Discard}
	}
	if isCollective(args) {
		if err := checkCollectiveFlags(cmd.Flags()); err != nil {
			return err
		}
		return f.runCollective(cmd.Context(), args[0], std)
	}
	if cmd.Flags().Changed("sizes") {
		return fmt.Errorf("--sizes: applies only to a collective by itself: psim exec %s --gpus 2 --sizes 8B-64MiB; "+
			"the collectives are %s", collective.RingAllReduce, strings.Join(collective.Names(), ", "))
	}
	return runExec(cmd.Context(), args, f, std)
}

// silence makes a later process print and write nothing.
func (f *execFlags) silence() {
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

// settle completes the flags for devices by what the backend is. Devices that want processes of their own get
// them, unless the user or a launcher has said how many there are.
func (f *execFlags) settle(ranks int) error {
	devices, apart, err := f.Measure.Devices.Settle()
	if err != nil {
		return err
	}
	f.Measure.Devices = devices
	if apart && f.processes == 0 && f.place == nil && cluster.Launched(os.Getenv).Size == 0 {
		f.processes = ranks
	}
	return nil
}

// inProcesses runs an execution over at least the given number of ranks: in the processes that a
// launcher has started, in processes that it starts itself, or in this one. Before it starts any, check
// finds out whether this machine can run it. One process reports an error to the user: the first,
// unless it is lost.
func (f *execFlags) inProcesses(ctx context.Context, ranks int, check, run func() error) error {
	f.Measure.Train.Run.Abandon = f.abandon
	if err := f.settle(ranks); err != nil {
		return err
	}
	args, _ := ctx.Value(argumentsKey{}).([]string)
	o := cluster.Options{
		Processes: f.processes, Arguments: args, Ranks: ranks, Stall: f.Measure.Train.Run.Stall,
		Place: f.place, Waiting: f.wait, Version: versionName(),
		Usage: func(err error) bool { return exitCode(err) == exitUsage },
	}
	if err := o.Check(); err != nil {
		return err
	}
	if f.processes > 1 && cluster.First() {
		if err := check(); err != nil {
			return err
		}
	}
	p := newProgress(f.errorOut, f.quiet || f.json || f.csv)
	if f.processes > 1 {
		p.showf("starting %d processes", f.processes)
	}
	w, err := cluster.Open(ctx, o)
	p.clear()
	if errors.As(err, new(*cluster.RefusedError)) {
		return err
	}
	if err != nil {
		return failed(err)
	}
	if w == nil {
		return run()
	}
	f.Measure.Train.Run.World = w
	w.WhenLate(f.abandon)
	if err = run(); err != nil {
		if !errors.As(err, new(failure)) { // after a failure all processes have ended their run
			w.Abort(err)
		}
		err = f.reportOnce(err)
	}
	w.Close() // not deferred: a panic must not look like an orderly end
	return err
}

// world returns the processes of the run, or nil if this is the only one.
func (f *execFlags) world() *cluster.World { return f.Measure.Train.Run.World }

// abandon ends this process, which cannot be stopped in another way, and the processes that it has
// started.
func (f *execFlags) abandon(cause error) {
	if f.world() == nil {
		printError(cause, nil, f.errorOut)
	} else {
		f.world().Abort(failed(cause))
		f.reportOnce(cause)
		f.world().Kill()
	}
	os.Exit(exitFailed)
}

// reportOnce prints why a run of several processes has ended, if this process is the one to do so,
// and marks the error as reported.
func (f *execFlags) reportOnce(err error) error {
	world := f.world()
	if cause := world.Cause(); errors.Is(err, context.Canceled) && cause != nil {
		err = cause
	}
	var aborted *cluster.AbortError
	isAborted := errors.As(err, &aborted)
	host := world.Processes()[world.Rank].Host
	switch {
	case isAborted && aborted.Usage && aborted.Process.Host == host:
		err = errors.New(aborted.Text) // this process would have found the same
	case isAborted && !aborted.Usage, errors.As(err, new(*cluster.LostError)):
		err = failed(err)
	}
	if world.Speaks() {
		printError(err, nil, f.errorOut)
	}
	return reported{err}
}
