// Package cli is the command psim: a file for every verb, with its flags and what it prints.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"psim/exec/cluster"
)

// An interrupted run stops after the tasks that are running, and then saves what
// it measured. It has until grace for that; after notice it says how to end it at
// once.
// Whoever sends a signal to the process and to its group, as timeout does, sends
// two that are one.
const (
	same   = 200 * time.Millisecond
	notice = 2 * time.Second
	grace  = 20 * time.Second
)

// Main runs the command line of the process until a signal interrupts it, and returns the exit
// code.
func Main(ctx context.Context) int {
	first := cluster.First() // only one of several tells of an interrupt
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		time.Sleep(same)
		stop() // a second signal ends the process at once
		time.Sleep(notice - same)
		if first {
			fmt.Fprintln(os.Stderr, "psim: stopping; interrupt again to end at once")
		}
		time.Sleep(grace - notice)
		if first {
			fmt.Fprintln(os.Stderr, "psim: interrupted")
		}
		os.Exit(exitFailed)
	}()
	return Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// collectLate has memory collected at 16 MB for the first time, unless GOGC is set: a run of
// less needs to its end nearly all that it allocates. Then it is collected as ever.
func collectLate() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(400) // of the 4 MB at which that would begin
	runtime.AddCleanup(new([64]byte), func(usual int) { debug.SetGCPercent(usual) }, usual)
}
