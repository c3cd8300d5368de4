package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"psim/configs"
)

// newConfigHelp makes the help topic "psim help config": no command, only a text,
// which is made when it is asked for, because every start of psim comes here.
func newConfigHelp() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "all settings of a configuration, with their meaning and default",
	}
	c.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), configs.Reference()) })
	return c
}
