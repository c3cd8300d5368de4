// Command psim predicts how a distributed training step runs. Run
// "psim help" for its manual.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// grace is how long an interrupted run may take to stop cleanly.
const grace = 2 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
		time.Sleep(grace)
		fmt.Fprintln(os.Stderr, "psim: interrupted")
		os.Exit(exitFailed)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
