package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psim/configs"
	execrun "psim/exec/run"
	"psim/internal/files"
	"psim/internal/nearest"
	"psim/results/schema"
	"psim/sim"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // a check failed, or the run did
	exitUsage  = 2 // wrong usage or bad input
)

// failure marks an error that is not the user's: a check that failed, a schedule
// that deadlocks.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// failed marks an error as one that is not the user's. An interrupt stays one.
func failed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return failure{err}
}

// Run runs a command line, and returns the exit code.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := New()
	root.SetArgs(args)
	out := &watched{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.WithValue(ctx, arguments{}, args))
	if out.err != nil {
		err = failure{fmt.Errorf("stdout: %s", files.Reason(out.err))}
	}
	if err != nil && !errors.As(err, new(said)) {
		tell(err, stderr)
	}
	return exitCode(err)
}

// arguments keys the command line in a context: exec starts copies of psim with the
// same.
type arguments struct{}

// worded names a setting that is wrong as the flag that gave it, which the library does
// not know.
func worded(err error) string {
	text := err.Error()
	var wrong *configs.Error
	if errors.As(err, &wrong) && wrong.Override {
		text = strings.Replace(text, wrong.Error(), "--set "+wrong.Error(), 1)
	}
	return text
}

// exitCode tells the user's errors from those that are not the user's.
func exitCode(err error) int {
	var failed failure
	var deadlock *sim.DeadlockError
	var ran *execrun.Error
	var unwritable files.Unwritable
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, context.Canceled), errors.As(err, &failed), errors.As(err, &deadlock), errors.As(err, &ran), errors.As(err, &unwritable):
		return exitFailed
	}
	return exitUsage
}

// watched makes what is written visible, and keeps the first error of writing for run,
// which reports it: not every printer does.
type watched struct {
	io.Writer
	err error
}

func (w *watched) Write(p []byte) (int, error) {
	if w.err == nil {
		_, w.err = io.WriteString(w.Writer, visible(string(p)))
	}
	return len(p), nil
}

// New returns psim with all its verbs.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "psim",
		Short: "predict how a distributed training step runs",
		Long: `psim predicts how a distributed training step runs: its time, bubbles, memory
and communication. psim exec runs the same task graph for real, to check.`,
		Example: `  psim run gpipe                                      an example, by name
  psim run my.toml --set schedule.microbatches=16     a file, with a change
  psim schedule 1f1b --stages 4 --microbatches 8      the order alone
  psim validate 1.6                                   a formula question, answered twice
  psim exec --gpus 2                                  predict, then train on two cores
  psim list examples                                  configurations to start from`,
		Version:       version,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("unknown command %q%s\nsee \"psim --help\"", args[0], nearest.Suggest(args[0], verbs(cmd)))
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return onlyOne(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newRun(), newExec(), newValidate(), newSchedule(), newCompare(), newSearch(), newSweep(), newMerge(), newPlot(), newReproduce(), newCalibrate(), newList(), newShow(), newDoctor(), newCompletion(), newVersion(), newConfigHelp(), newResultHelp())
	root.SetFlagErrorFunc(badFlag)
	root.SetHelpCommand(newHelp())
	return root
}

// newHelp makes an unknown topic an error, where cobra's prints the manual.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "explain a command, the settings (config) or the fields of a result (result)",
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return verbs(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, _, err := cmd.Root().Find(args)
			if err != nil || topic == cmd.Root() && len(args) > 0 {
				return fmt.Errorf("unknown help topic %q%s\nsee \"psim --help\"", args[0], nearest.Suggest(args[0], verbs(cmd.Root())))
			}
			topic.InitDefaultHelpFlag() // which the manual lists
			topic.InitDefaultVersionFlag()
			return topic.Help()
		},
	}
}

func verbs(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// exactly refuses any other number of arguments, saying which are wanted.
func exactly(n int, usage string) cobra.PositionalArgs { return between(n, n, usage) }

func between(least, most int, usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		if err := swallowed(cmd); err != nil {
			return err
		}
		got := "nothing"
		if len(args) > 0 {
			got = strings.Join(args, " ")
		}
		return fmt.Errorf("%s takes %s, not %s\nsee \"%s --help\"", cmd.Name(), usage, got, cmd.CommandPath())
	}
}

// swallowed names a flag whose value was left out, so that the next flag became it.
func swallowed(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if name, ok := strings.CutPrefix(value, "--"); ok && cmd.Flags().Lookup(name) != nil {
				err = fmt.Errorf("--%s needs a value, and --%s is a flag\nsee \"%s --help\"", f.Name, name, cmd.CommandPath())
			}
		}
	})
	return err
}

// version names the release; CHANGELOG.md says what is in it.
const version = "0.1.0"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Example: "  psim version", Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "psim %s %s %s/%s\n", versionName(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// versionName returns the release, and the revision that was built where it is known.
func versionName() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return version + " " + s.Value[:12]
			}
		}
	}
	return version
}

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

// newResultHelp makes the help topic "psim help result".
func newResultHelp() *cobra.Command {
	c := &cobra.Command{
		Use:   "result",
		Short: "all fields of a result in JSON, with their unit and meaning",
	}
	c.SetHelpFunc(func(cmd *cobra.Command, _ []string) { schema.WriteText(cmd.OutOrStdout()) })
	return c
}
