package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	lib "psim"
	"psim/internal/files"
)

// defaultLinkFile says where the link of psim calibrate --nccl is written to.
const defaultLinkFile = "my-link.toml"

// runNCCL fits a link to files and writes it.
func (f calibrateFlags) runNCCL(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 || len(f.sets) > 0 || f.samples != nil {
		return errors.New("--nccl fits a link to files and measures nothing here; leave out CONFIG, --set and --samples")
	}
	if err := f.check(); err != nil {
		return err
	}
	fit, err := lib.FitLink(f.nccl...)
	if err != nil {
		return flagged("nccl", err)
	}
	fit.File, fit.Command = f.out, "psim calibrate"
	for _, path := range f.nccl {
		fit.Command += " --nccl " + quoted(path)
	}
	fit.Command += " --out " + quoted(f.out)
	if err := files.Write(ctx, []files.File{{Path: f.out, Render: fit.WriteMachine}}); err != nil {
		return failure{err}
	}
	if f.json {
		return fit.WriteJSON(stdout)
	}
	if err := fit.WriteTable(stdout); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\nwrote %s; use it with\n  psim run CONFIG --set %s --set machine.device=DEVICE\nwhere all devices are in one node, and otherwise with file = %q in [machine]\n",
		f.out, quoted("machine.file="+f.out), f.out)
	return err
}
