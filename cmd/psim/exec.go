package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psim/configs"
	"psim/exec"
	"psim/exec/programs"
	"psim/internal/nearest"
)

// execFlags are the flags of psim exec.
type execFlags struct {
	runFlags
	gpus                 int
	backend              string
	share, oversubscribe bool
	steps, warmup        int
	repeats, runs        int
	check                []string
	courseRates          bool
	perLayer             bool
	data                 string
	strided              bool
	seed                 uint64
	learningRate         float64
	stall                time.Duration
}

// execModes are the schedules that run without CONFIG, the main one last.
var execModes = []string{"model-parallel", "gpipe", "1f1b"}

// checkNames are what --check takes.
var checkNames = []string{"weights", "output", "grads", "loss"}

func newExec() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [CONFIG]",
		Short: "run the same task graph for real, and hold it against its prediction",
		Long: `exec trains the network of CONFIG for a few steps by running the task graph that
psim run simulates, on devices of this machine. First it measures every kind of
task alone, and from that predicts the step; then it runs the graph and shows both
beside each other, with the error split into its parts.

Devices are the machine's cores (--backend go, gomlx's Go backend), or GPUs
(--backend xla). psim doctor says which there are. The [machine] of CONFIG is not
used. Training is in fp32, on made-up data unless --data names others. Without
CONFIG the example exec, a small GPT-2, runs in three ways: model-parallel, gpipe
and 1f1b. What had to be changed in CONFIG is a warning of the result.

The memory that is measured is the ledger's: every device counts the bytes of all
tensors that it holds. The predicted one follows from the network alone.

--check compares with an unsplit run of the same seed and batches: weights after
the last step (they may differ by 1e-5), output (1e-4), grads of the first step
(1e-5, and bitwise equal on all replicas), and loss, which must also fall. For
pipedream, which no unsplit run equals, it compares with a serial replay of the
same microbatches with the same versions of the weights.`,
		Example: `  psim exec --gpus 2
  psim exec --gpus 2 --check weights,output,grads,loss
  psim exec gpipe --gpus 2 --set batch.global=4 --set schedule.microbatches=2
  psim exec --backend xla --gpus 2 --share            two devices on one GPU`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("exec takes one CONFIG or none, not %s\nsee \"psim exec --help\"", strings.Join(args, " "))
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return configs.Examples(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.given(cmd); err != nil {
				return err
			}
			if err := f.validate(); err != nil {
				return err
			}
			return runExec(cmd.Context(), args, f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.register(cmd)
	return cmd
}

// register declares the flags.
func (f *execFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.gpus, "gpus", 0, "number of devices (default: as CONFIG says, 2 without)")
	flags.IntVar(&f.gpus, "devices", 0, "the same as --gpus")
	flags.StringVar(&f.backend, "backend", "go", "what computes: go, xla or xla:/absolute/path/of/plugin.so")
	flags.BoolVar(&f.share, "share", false, "put all XLA devices on one GPU")
	flags.BoolVar(&f.oversubscribe, "oversubscribe", false, "allow more devices than cores; times are then not comparable")
	flags.IntVar(&f.steps, "steps", 5, "number of steps to measure")
	flags.IntVar(&f.warmup, "warmup", 1, "number of steps to train before those that are measured")
	flags.IntVar(&f.repeats, "repeats", 3, "how often every task is measured alone, for the prediction")
	flags.StringSliceVar(&f.check, "check", nil, "compare with the unsplit run (pipedream: a serial replay): weights,output,grads,loss or all")
	flags.BoolVar(&f.courseRates, "course-rates", false, "also print the rate as the courses report it, by a clock that does not wait for devices")
	flags.BoolVar(&f.perLayer, "per-layer", false, "run backwards layer by layer, freeing activations as they go")
	flags.StringVar(&f.data, "data", "synthetic", "what to train on: synthetic, cifar10:FOLDER or pairs:FILE")
	flags.BoolVar(&f.strided, "strided", false, "give replica r the samples r, r+n, … instead of shuffled shards")
	flags.Uint64Var(&f.seed, "seed", 1390, "seed of the first weights, and of dropout")
	flags.Float64Var(&f.learningRate, "learning-rate", 0, "of the optimizer (default 1e-4 with adam and adamw, 1e-3 with sgd)")
	flags.DurationVar(&f.stall, "stall", 10*time.Minute, "how long nothing may happen before a run counts as stuck")
	flags.StringArrayVar(&f.sets, "set", nil, "change a setting: KEY=VALUE with a dotted key; may be repeated")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object and nothing else")
	flags.BoolVar(&f.csv, "csv", false, "print one row per rank, of all schedules that ran, as CSV and nothing else")
	flags.StringVar(&f.out, "out", "", "folder to write results and pictures to; - for none (default out/exec or out/exec-NAME)")
	flags.StringVar(&f.trace, "trace", "", "also write the measured timeline for Perfetto or chrome://tracing: a .json or .json.gz file")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
}

// mostSteps bounds how often something is done of which everything is kept.
const mostSteps = 100_000

// given refuses flags that may be left out, but not be given so.
func (f *execFlags) given(cmd *cobra.Command) error {
	gpus, devices := cmd.Flags().Changed("gpus"), cmd.Flags().Changed("devices")
	switch {
	case gpus && devices:
		return errors.New("--gpus and --devices are the same flag; give one of them")
	case (gpus || devices) && f.gpus == 0:
		return errors.New("--gpus 0: there must be at least 1 device")
	case cmd.Flags().Changed("learning-rate") && f.learningRate == 0:
		return errors.New("--learning-rate 0: must be above 0 and below 1000, such as 1e-3")
	}
	return nil
}

// validate checks what needs no configuration.
func (f *execFlags) validate() error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"steps", f.steps}, {"warmup", f.warmup}, {"repeats", f.repeats}} {
		if n.value > mostSteps {
			return fmt.Errorf("--%s %d: must be at most %d", n.flag, n.value, mostSteps)
		}
	}
	switch {
	case f.json && f.csv:
		return errors.New("--json and --csv exclude each other: stdout holds one of them")
	case f.gpus < 0:
		return fmt.Errorf("--gpus %d: there must be at least 1 device", f.gpus)
	case f.steps < 1:
		return fmt.Errorf("--steps %d: at least 1 step has to be measured", f.steps)
	case f.warmup < 0 || f.warmup == 0 && len(f.check) > 0:
		return fmt.Errorf("--warmup %d: must be 0 or more, and with --check at least 1, because the first step is slower", f.warmup)
	case f.repeats < 1:
		return fmt.Errorf("--repeats %d: every task has to be profiled at least once", f.repeats)
	case f.stall < time.Second:
		return fmt.Errorf("--stall %s: must be at least 1s", f.stall)
	case !(f.learningRate >= 0 && f.learningRate < 1e3):
		return fmt.Errorf("--learning-rate %g: must be above 0 and below 1000, such as 1e-3", f.learningRate)
	case f.backend == "":
		return errors.New("--backend: names nothing; there are go, xla and xla:/absolute/path/of/plugin.so")
	}
	for _, c := range f.check {
		if c != "all" && !slices.Contains(checkNames, c) {
			return fmt.Errorf("--check %s: there are %s, and all%s", c, strings.Join(checkNames, ", "), nearest.Suggest(c, checkNames))
		}
	}
	if slices.Contains(f.check, "all") {
		f.check = checkNames
	}
	return nil
}

// checks reports whether something is checked.
func (f execFlags) checks(name string) bool { return slices.Contains(f.check, name) }

// devices is how the devices are opened.
func (f execFlags) devices() exec.DeviceOptions {
	return exec.DeviceOptions{Backend: f.backend, Oversubscribe: f.oversubscribe, Share: f.share}
}

// modes loads the configurations to run: CONFIG, or the built-in one with three
// schedules.
func (f execFlags) modes(args []string, stderr io.Writer) ([]*configs.Config, error) {
	if len(args) == 1 {
		c, err := f.load(args[0], stderr)
		return []*configs.Config{c}, err
	}
	var list []*configs.Config
	for _, schedule := range execModes {
		c, err := f.load("exec", stderr, "schedule.name="+schedule)
		if err != nil {
			return nil, err
		}
		list, stderr = append(list, c), io.Discard // what was changed is said once
	}
	return list, nil
}

// load reads a configuration and fits it to the number of devices.
func (f execFlags) load(path string, stderr io.Writer, sets ...string) (*configs.Config, error) {
	c, err := configs.Load(path, append(sets, f.sets...)...)
	if err != nil {
		return nil, err
	}
	c, changes, err := c.Executable(f.gpus)
	if err == nil && !f.quiet {
		for _, change := range changes {
			fmt.Fprintf(stderr, "%s: %s\n", c.Name(), change)
		}
	}
	return c, err
}

func runExec(ctx context.Context, args []string, f execFlags, stdout, stderr io.Writer) error {
	list, err := f.modes(args, stderr)
	if err != nil {
		return err
	}
	if err := f.checkTrace(strings.Join(args, "")); err != nil {
		return err
	}
	name := "exec"
	if len(args) == 1 {
		name = "exec-" + list[0].Name()
	}
	folder, err := f.folder(name, stderr)
	if err != nil {
		return err
	}
	if f.backend == "go" && !programs.SIMDCompiled && !f.quiet {
		fmt.Fprintln(stderr, "psim: built without GOEXPERIMENT=simd, so that training takes about ten times as long as it could")
	}
	s := &session{flags: f, progress: newProgress(stderr, f.quiet || f.json || f.csv)}
	defer s.close()
	err = s.run(ctx, list)
	s.progress.clear()
	if len(s.done) == 0 {
		return err
	}
	return errors.Join(s.report(ctx, folder, stdout, stderr), err)
}
