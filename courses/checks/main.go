// Command checks makes the checks of a course, and prints what they found: the eight of CS1390's
// training assignment (cs1390), with whole VGG16 on two workers, or the four tests of CMU's homework
// 4 (hw4). It fails if a check fails. What they compare, and within which tolerances, is in
// docs/course-checks.md; the digits depend on the processor.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"

	"psim/exec/backend"
)

// seed makes the weights: the default of psim exec.
const seed = 1390

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// Devices may share cores: no check reads a time.
	r := runner{
		devices: backend.Options{Backend: "go", Oversubscribe: true}, network: wholeGPT2(),
		tell: func(what string) { fmt.Fprintln(os.Stderr, what) },
	}
	if err := r.check(ctx, os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// check makes the checks of the course that the arguments name.
func (r runner) check(ctx context.Context, args []string, w io.Writer) error {
	made := fmt.Sprintf("on %s, with %s", backend.Processor(), runtime.Version())
	switch {
	case len(args) == 1 && args[0] == "cs1390":
		rows, err := run(ctx, r.devices, r.tell)
		fmt.Fprintf(w, "CS1390's checks, %s\n\n", made)
		write(w, rows)
		return err
	case len(args) == 1 && args[0] == "hw4":
		fmt.Fprintf(w, "homework 4's tests, %s\n\n", made)
		return homework(ctx, r, w)
	}
	return fmt.Errorf("checks %q: name one course, cs1390 or hw4", args)
}
