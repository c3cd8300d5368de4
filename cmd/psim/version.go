package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release; CHANGELOG.md says what is in it.
const version = "0.1.0"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Example: "  psim version", Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			revision := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" && len(s.Value) >= 12 {
						revision = " " + s.Value[:12]
					}
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "psim %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
