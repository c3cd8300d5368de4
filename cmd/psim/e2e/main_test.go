// Package e2e tests psim from end to end: the commands of the help and the documents, executions,
// several processes, recipes, faults, full disks and interrupts. Every command is a process of its
// own that works in a folder of its test, so tests run in parallel.
package e2e

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"psim/cmd/psim/cli"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // a check failed, or the run did
	exitUsage  = 2 // wrong usage or bad input
)

// asPsim is the variable that makes the test's binary run psim: "itself", or "small" for scripts,
// with networks that train in a moment.
const asPsim = "PSIM_AS_PSIM"

// program is the path of the test's binary, which runs psim.
var program string

func TestMain(m *testing.M) {
	_, copied := os.LookupEnv("PSIM_PROCESS")
	switch as := os.Getenv(asPsim); {
	case os.Getenv(faultVariable) != "":
		os.Exit(runFaulty(os.Getenv(faultVariable)))
	case os.Getenv(askedVariable) != "":
		os.Exit(runAsked(os.Getenv(askedVariable)))
	case copied || as == "itself":
		os.Exit(cli.Main(context.Background()))
	case as == "small":
		if err := flag.CommandLine.Parse(nil); err != nil { // testing needs the flags parsed
			panic(err)
		}
		command, _ := small(strings.Join(append([]string{"psim"}, os.Args[1:]...), " "))
		os.Exit(cli.Run(context.Background(), strings.Fields(command)[1:], os.Stdout, os.Stderr))
	}
	var err error
	if program, err = os.Executable(); err != nil {
		panic(err)
	}
	os.Setenv(asPsim, "itself") // in the processes that tests start
	os.Exit(m.Run())
}

// long reports whether tests may take long: PSIM_LONG asks for that, in make examples and make processes.
func long() bool { return os.Getenv("PSIM_LONG") != "" }
