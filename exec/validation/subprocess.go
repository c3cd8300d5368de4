package validation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"psim/exec/cluster/mpi"
	"psim/results"
)

// overMPI reports whether experiments can run over MPI on this machine.
func overMPI() bool {
	_, err := exec.LookPath("mpirun")
	return mpi.Compiled && err == nil
}

// runPsim starts psim to run an experiment over several processes, with the same options.
func (o Options) runPsim(ctx context.Context, e experiment, sets []string) (result results.Result, err error) {
	program, err := os.Executable()
	if err != nil {
		return result, err
	}
	m := o.Session.Measure
	args := []string{
		program, "exec", e.model, "--json", "--quiet", "--out", "-",
		fmt.Sprint("--oversubscribe=", m.Devices.Oversubscribe), fmt.Sprint("--gpus=", o.Devices),
		fmt.Sprint("--steps=", m.Train.Steps), fmt.Sprint("--repeats=", m.Repeats),
		"--backend=" + cmp.Or(m.Devices.Backend, "go"),
	}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	if e.mpi {
		args = append([]string{"mpirun", "-np", fmt.Sprint(e.processes)}, args...)
	} else if e.processes > 0 {
		args = append(args, fmt.Sprint("--processes=", e.processes))
	}
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	// Otherwise Open MPI refuses root, and more processes than it counts cores.
	c.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_rmaps_base_oversubscribe=1")
	c.Stdout, c.Stderr = &stdout, &stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // ends all its processes
	c.WaitDelay = 10 * time.Second
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		return result, errors.New(strings.TrimSpace(stderr.String()))
	}
	return results.ReadResult(&stdout)
}
