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

// A failure is an error that the user did not cause: a check that failed, or a schedule that
// deadlocks.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// failed marks an error as a failure. An interrupt stays an interrupt.
func failed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return failure{err}
}

// A reported error was printed already, or another process prints it.
type reported struct{ error }

func (r reported) Unwrap() error { return r.error }

// Run runs a command line, and returns the exit code.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := New()
	root.SetArgs(args)
	out := &visibleWriter{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.WithValue(ctx, argumentsKey{}, args))
	if out.err != nil {
		err = failure{fmt.Errorf("stdout: %s", files.Reason(out.err))}
	}
	if err != nil && !errors.As(err, new(reported)) {
		printError(err, args, stderr)
	}
	return exitCode(err)
}

// argumentsKey is the key of the command line in a context: exec starts copies of psim with the
// same arguments.
type argumentsKey struct{}

// printError prints an error of a command line for the user.
func printError(err error, args []string, stderr io.Writer) {
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "psim: interrupted")
	} else {
		fmt.Fprintln(stderr, "psim:", inOneLine(visible(errorText(err)), args))
	}
}

// errorText returns the text of an error. A wrong setting is preceded by the flag that gave it,
// which the library does not know.
func errorText(err error) string {
	text := err.Error()
	var wrong *configs.Error
	if errors.As(err, &wrong) && wrong.Override {
		text = strings.Replace(text, wrong.Error(), "--set "+wrong.Error(), 1)
	}
	return text
}

// exitCode distinguishes errors that the user caused from failures.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	var (
		failed     failure
		deadlock   *sim.DeadlockError
		execution  *execrun.Error
		unwritable files.Unwritable
	)
	if errors.Is(err, context.Canceled) || errors.As(err, &failed) || errors.As(err, &deadlock) ||
		errors.As(err, &execution) || errors.As(err, &unwritable) {
		return exitFailed
	}
	return exitUsage
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
  psim schedule 1f1b --stages 4 --microbatches 8      only the order of tasks
  psim validate 1.6                                   a formula question, answered in two ways
  psim exec --gpus 2                                  predict, then train on two cores
  psim list examples                                  configurations to start from`,
		Version:       version,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("unknown command %q%s\nsee \"psim --help\"",
				args[0], nearest.Suggest(args[0], verbNames(cmd)))
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return refuseLaunched(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(
		newRun(), newExec(), newValidate(), newSchedule(), newCompare(), newSearch(), newSweep(), newMerge(),
		newPlot(), newStatus(), newReproduce(), newCalibrate(), newImport(), newExplain(), newExport(),
		newList(), newShow(), newDoctor(), newCompletion(), newVersion(),
		newConfigHelp(), newResultHelp(),
	)
	for _, verb := range root.Commands() {
		completeSettings(verb)
	}
	root.SetFlagErrorFunc(explainFlagError)
	root.SetHelpCommand(newHelp())
	return root
}

// newHelp returns the verb help. It refuses an unknown topic, where cobra's would print the manual.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "explain a command, the settings (config) or the fields of a result (result)",
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return verbNames(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, _, err := cmd.Root().Find(args)
			if err != nil || topic == cmd.Root() && len(args) > 0 {
				return fmt.Errorf("unknown help topic %q%s\nsee \"psim --help\"",
					args[0], nearest.Suggest(args[0], verbNames(cmd.Root())))
			}
			topic.InitDefaultHelpFlag() // the manual lists these flags
			topic.InitDefaultVersionFlag()
			return topic.Help()
		},
	}
}

func verbNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// exactArgs accepts n arguments; the error for any other number says what the verb takes.
func exactArgs(n int, usage string) cobra.PositionalArgs { return argsBetween(n, n, usage) }

func argsBetween(least, most int, usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		if err := missingValueError(cmd); err != nil {
			return err
		}
		got := "nothing"
		if len(args) > 0 {
			got = strings.Join(args, " ")
		}
		return fmt.Errorf("%s takes %s, not %s\nsee \"%s --help\"", cmd.Name(), usage, got, cmd.CommandPath())
	}
}

// missingValueError reports a flag whose value was left out, so that the parser took the next flag as
// its value.
func missingValueError(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if name, ok := strings.CutPrefix(value, "--"); ok && cmd.Flags().Lookup(name) != nil {
				err = fmt.Errorf("--%s needs a value, and --%s is a flag\nsee \"%s --help\"",
					f.Name, name, cmd.CommandPath())
			}
		}
	})
	return err
}

// version is the number of the release, as in CHANGELOG.md.
const version = "0.1.0"

// revision is the commit that make release builds. Other builds have what Go recorded, if it did.
var revision string

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version",
		Example: "  psim version",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine names the program, what compiled it and what it runs on: two programs of one line give equal results.
func versionLine() string {
	return fmt.Sprintf("psim %s %s %s/%s", versionName(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionName returns the release, followed by the revision of the source if the build recorded it.
func versionName() string {
	if revision != "" {
		return version + " " + revision
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return version + " " + s.Value[:12]
			}
		}
	}
	return version
}

// newConfigHelp returns the help topic "psim help config": a text without a command. The text is made
// only when it is asked for, because every start of psim calls this function.
func newConfigHelp() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "all settings of a configuration, with their meaning and default",
	}
	c.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), configs.Reference()) })
	return c
}

// newResultHelp returns the help topic "psim help result".
func newResultHelp() *cobra.Command {
	c := &cobra.Command{
		Use:   "result",
		Short: "all fields of a result in JSON, with their unit and meaning",
	}
	c.SetHelpFunc(func(cmd *cobra.Command, _ []string) { schema.WriteText(cmd.OutOrStdout()) })
	return c
}
