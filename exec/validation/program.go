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

	"psim/reports"
)

// overProcesses has psim itself run an experiment over several processes, with the same
// options.
func (o Options) overProcesses(ctx context.Context, example string, processes int, sets []string) (result reports.Result, err error) {
	args := []string{
		"exec", example, "--json", "--quiet", "--out", "-", fmt.Sprint("--oversubscribe=", o.Options.Devices.Oversubscribe),
		fmt.Sprint("--gpus=", o.Devices), fmt.Sprint("--processes=", processes), fmt.Sprint("--steps=", o.Steps), fmt.Sprint("--repeats=", o.Repeats),
	}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	program, err := os.Executable()
	if err != nil {
		return result, err
	}
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, program, args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // which ends all processes
	c.WaitDelay = 10 * time.Second
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		return result, errors.New(strings.TrimSpace(stderr.String()))
	}
	return reports.ReadResult(&stdout)
}
