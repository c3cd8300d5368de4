// Package cli is the psim command. Every verb has a file of its own with its flags, its help and
// what it prints; files that begin with the name of a verb hold parts of that verb. flags.go and
// streams.go hold what verbs share. Run runs a command line in this process; Main also handles the
// signals of the operating system.
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
	"psim/internal/ram"
)

// An interrupted run stops after the tasks that are running, and then saves what it measured.
// It has gracePeriod to do so; after noticeDelay psim says how to end it at once.
// Some senders signal both the process and its group, as timeout does: two signals within
// duplicateWindow count as one.
const (
	duplicateWindow = 200 * time.Millisecond
	noticeDelay     = 2 * time.Second
	gracePeriod     = 20 * time.Second
)

// Main runs the command line of the process until a signal interrupts it, and returns the exit
// code.
func Main(ctx context.Context) int {
	// First of all: what begins a thread may not find memory for it under a low limit.
	if err := ram.Obey(); err != nil {
		fmt.Fprintln(os.Stderr, "psim:", err)
		return exitFailed
	}
	first := cluster.First() // of several processes, only the first reports an interrupt
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		time.Sleep(duplicateWindow)
		stop() // a second signal ends the process at once
		time.Sleep(noticeDelay - duplicateWindow)
		if first {
			fmt.Fprintln(os.Stderr, "psim: stopping; interrupt again to end at once")
		}
		time.Sleep(gracePeriod - noticeDelay)
		if first {
			fmt.Fprintln(os.Stderr, "psim: interrupted")
		}
		os.Exit(exitFailed)
	}()
	return Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// delayCollection postpones the first garbage collection until 16 MB are allocated, unless GOGC is
// set: a smaller run needs nearly all that it allocates until its end. Later collections are as usual.
func delayCollection() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(400) // of the 4 MB at which the first collection would begin
	runtime.AddCleanup(new([64]byte), func(usual int) { debug.SetGCPercent(usual) }, usual)
}
