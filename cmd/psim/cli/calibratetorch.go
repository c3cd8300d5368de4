package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"psim/configs"
	"psim/exec/pytorch"
	"psim/exec/session"
	"psim/reports"
)

// runTorch times the tasks of a pipeline in PyTorch and writes them as a configuration.
func (f calibrateFlags) runTorch(cmd *cobra.Command, args []string) error {
	ctx, std := cmd.Context(), streamsOf(cmd)
	if f.samples != nil || len(f.nccl) > 0 {
		return errors.New("--engine torch times the configuration's own microbatches here; " +
			"leave out --samples and --nccl")
	}
	if !cmd.Flags().Changed("out") {
		f.out = defaultTorchFile
	}
	name, c, err := f.load(args)
	if err != nil {
		return err
	}
	python, err := pytorch.Find(ctx)
	if err != nil {
		return failed(err)
	}
	progress := newProgress(std.err, f.quiet)
	progress.showf("timing tasks in PyTorch")
	times, err := session.TimeInPyTorch(ctx, c, pytorch.Options{
		Python: python, Rounds: f.repeats,
		Progress: func(line string) { progress.showf("timing tasks in PyTorch: %s", line) },
	})
	progress.clear()
	if wrong := (*configs.Error)(nil); errors.As(err, &wrong) {
		return err
	}
	if err != nil {
		return failed(err)
	}
	times.File = f.out
	unsaved := failed(f.file().write(ctx, func(w io.Writer) error { return times.WriteConfig(w, f.command(name)) }))
	if f.json {
		return errors.Join(times.WriteJSON(std.out), unsaved)
	}
	if err := errors.Join(times.WriteText(std.out), unsaved); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "\nwrote %s; use it with\n  psim run %s\n", f.out, reports.ShellWord(f.out))
	return err
}
