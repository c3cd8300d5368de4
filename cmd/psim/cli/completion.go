package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"psim/configs"
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

const completionManual = `completion prints a script with which a shell completes verbs, flags, their values,
settings of --set and --vary, and the names of examples and presets. Load it when the
shell starts:

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

// completeConfig completes the first argument of a verb: a file, an example or a preset.
func completeConfig(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return beginning(word, "", configs.Names(word)), cobra.ShellCompDirectiveDefault
}

// completeNames completes the values of flags from lists.
func completeNames(cmd *cobra.Command, lists map[string]func() []string) {
	for flag, list := range lists {
		completeFlag(cmd, flag, func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return beginning(word, "", list()), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the verb does not declare the flag
	}
}

// completeSettings completes the flags of a verb that take settings.
func completeSettings(cmd *cobra.Command) {
	for _, flag := range []string{"set", "vary"} {
		complete := func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return completeSetting(word, flag == "vary")
		}
		if cmd.Flags().Lookup(flag) != nil {
			completeFlag(cmd, flag, complete)
		}
	}
}

// completeSetting completes KEY=VALUE, or the last of several values.
func completeSetting(word string, several bool) ([]string, cobra.ShellCompDirective) {
	key, value, valued := strings.Cut(word, "=")
	if !valued {
		return beginning(word, "", configs.Keys("=")),
			cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	before, choices := key+"=", configs.Choices(key)
	if several {
		last := strings.LastIndex(value, ",") + 1
		given := strings.Split(value[:last], ",")
		choices = slices.DeleteFunc(choices, func(choice string) bool { return slices.Contains(given, choice) })
		before, value = before+value[:last], value[last:]
	}
	if strings.HasSuffix(key, ".file") && !several {
		return beginning(value, before, choices), cobra.ShellCompDirectiveDefault
	}
	return beginning(value, before, choices), cobra.ShellCompDirectiveNoFileComp
}

// beginning lists the words that begin with the typed letters, and writes a text before each.
func beginning(typed, before string, words []string) (list []string) {
	for _, word := range words {
		if strings.HasPrefix(word, typed) {
			list = append(list, before+word)
		}
	}
	return list
}
