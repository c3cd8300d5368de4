package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"psim/exec/doctor"
	"psim/internal/files"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	var needed string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "check what works on this machine, and say what to do about the rest",
		Long: `doctor tries the backends that execute a graph: gomlx's own, which needs nothing,
and XLA for NVIDIA GPUs or cores, which needs a build with -tags xla and a plugin. It says
what works here and what to do about the rest. No GPU is needed: psim exec runs on
cores. It fails (exit code 1) only if gomlx's own backend does not work, or with --backend
xla if XLA does not. What it prints is what a report about a GPU needs: versions, driver,
plugins, devices, one check, one time.`,
		Example: "  psim doctor\n  psim doctor --json\n  psim doctor --backend xla",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if needed != "go" && needed != "xla" {
				return fmt.Errorf("--backend %s: must be go or xla", needed)
			}
			text := cmd.OutOrStdout()
			if asJSON {
				text = io.Discard
			}
			d := doctor.Examine(version, text)
			if asJSON {
				if err := files.WriteJSON(cmd.OutOrStdout(), d); err != nil {
					return err
				}
			}
			if err := d.Err(needed); err != nil {
				return failure{err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&needed, "backend", "go", "the backend that must work: go or xla; all are tried")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object and nothing else")
	return cmd
}
