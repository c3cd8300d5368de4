package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"psim/exec/measure"
	"psim/exec/pytorch"
)

// engines are what psim exec trains with.
var engines = []string{"gomlx", "torch"}

// torchFlags are the flags of psim exec that apply where PyTorch trains.
var torchFlags = []string{
	"engine", "set", "gpus", "devices", "steps", "warmup", "repeats", "check", "seed", "json", "csv", "out",
	"overwrite", "trace", "quiet", "verbose",
}

// checkEngine refuses an unknown engine, and flags that do not apply to it.
func (f *execFlags) checkEngine(flags *pflag.FlagSet) (err error) {
	switch {
	case !slices.Contains(engines, f.engine):
		return fmt.Errorf("--engine %s: use %s", f.engine, strings.Join(engines, " or "))
	case f.engine == engines[0]:
		return nil
	}
	if slices.Equal(f.Measure.Checks, []string{measure.CheckOutput}) {
		return errors.New("--check output: PyTorch's outputs are not compared; use weights, grads, loss or all")
	}
	flags.Visit(func(flag *pflag.Flag) {
		if err == nil && !slices.Contains(torchFlags, flag.Name) {
			err = fmt.Errorf("--%s: does not apply with --engine torch", flag.Name)
		}
	})
	return err
}

// findPython finds the Python that trains, before anything is run.
func (f *execFlags) findPython(ctx context.Context) (err error) {
	if f.engine == engines[1] {
		f.Python, err = pytorch.Find(ctx)
	}
	return failed(err)
}
