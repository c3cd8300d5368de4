package validation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"psim/exec/mpi"
	"psim/results"
)

// overMPI reports whether experiments can run over MPI here.
func overMPI() bool {
	_, err := exec.LookPath("mpirun")
	return mpi.Compiled && err == nil
}

// overProcesses has psim itself run an experiment over several processes, with the same
// options.
func (o Options) overProcesses(ctx context.Context, e experiment, sets []string) (result results.Result, err error) {
	program, err := os.Executable()
	if err != nil {
		return result, err
	}
	args := []string{
		program, "exec", e.model, "--json", "--quiet", "--out", "-", fmt.Sprint("--oversubscribe=", o.Options.Devices.Oversubscribe),
		fmt.Sprint("--gpus=", o.Devices), fmt.Sprint("--steps=", o.Steps), fmt.Sprint("--repeats=", o.Repeats),
	}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	if e.mpi {
		args = append([]string{"mpirun", "-np", fmt.Sprint(e.processes)}, args...)
	} else {
		args = append(args, fmt.Sprint("--processes=", e.processes))
	}
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	// Open MPI else refuses root, and more processes than it counts cores.
	c.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1")
	c.Stdout, c.Stderr = &stdout, &stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // which ends all processes
	c.WaitDelay = 10 * time.Second
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		return result, errors.New(strings.TrimSpace(stderr.String()))
	}
	return results.ReadResult(&stdout)
}
