package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// A shell can complete the words of psim with the script that write prints.
type shell struct {
	name  string
	write func(root *cobra.Command, w io.Writer) error
}

func shells() []shell {
	return []shell{
		{"bash", func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
		{"fish", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
		{"powershell", (*cobra.Command).GenPowerShellCompletionWithDesc},
		{"zsh", (*cobra.Command).GenZshCompletion},
	}
}

const completionManual = `completion prints a script with which a shell completes verbs, flags, their values
and the names of examples. Load it when the shell starts:

  bash        psim completion bash > ~/.local/share/bash-completion/completions/psim
              (needs the package bash-completion)
  zsh         psim completion zsh > "${fpath[1]}/_psim"
              (needs autoload -U compinit; compinit in ~/.zshrc)
  fish        psim completion fish > ~/.config/fish/completions/psim.fish
  powershell  psim completion powershell | Out-String | Invoke-Expression
              (a line for the profile)

For one session of bash or zsh: source <(psim completion SHELL).`

func newCompletion() *cobra.Command {
	var names []string
	for _, s := range shells() {
		names = append(names, s.name)
	}
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "print a script with which a shell completes psim's words",
		Long:      completionManual,
		Example:   "  psim completion bash",
		ValidArgs: names,
		Args:      argsBetween(0, 1, "one shell: "+strings.Join(names, ", ")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			for _, s := range shells() {
				if s.name == args[0] {
					return s.write(cmd.Root(), cmd.OutOrStdout())
				}
			}
			return fmt.Errorf("unknown shell %q; use one of %s", args[0], strings.Join(names, ", "))
		},
	}
}
