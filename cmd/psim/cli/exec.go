package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psim/configs"
	"psim/exec/backend"
	"psim/exec/cluster"
	"psim/exec/measure"
	"psim/exec/session"
	"psim/internal/files"
	"psim/internal/nearest"
	"psim/reports"
	"psim/results"
)

type execFlags struct {
	runFlags
	session.Options
	engine    string
	gpus      int
	gradients string // folder for the gradients of the first step
	perLayer  bool
	processes int
	group     groupFlags
	place     *cluster.Rendezvous // where this process meets the others; nil if it was not started by itself
	wait      func(what string)   // prints what this process waits for before the run; nil prints nothing
	sizes     string              // of a collective by itself
	errorOut  io.Writer           // stderr of this process, also where std discards what it prints
}

func newExec() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [CONFIG|COLLECTIVE]",
		Short: "run the task graph for real, and compare it with its prediction",
		Long:  execManual,
		Example: `  psim exec --gpus 2
  psim exec --gpus 2 --check weights,output,grads,loss
  psim exec gpipe --gpus 2 --set batch.global=4 --set schedule.microbatches=2
  psim exec --backend xla --gpus 2 --share            two devices on one GPU
  psim exec --gpus 2 --processes 2                    a process for every device
  psim exec --engine torch --check all                in PyTorch, compared with psim's numbers
  psim exec ring-allreduce --gpus 2 --sizes 8B-1MiB   a collective by itself`,
		Args:              argsBetween(0, 1, "one CONFIG or collective, or none"),
		ValidArgsFunction: completeConfig,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.place, err = f.group.find(cmd.Flags(), os.Getenv); err != nil {
				return err
			}
			first := f.isFirst()
			switch err = f.run(cmd, args, first); {
			case f.place != nil: // every process has a user of its own
				return err
			case !first:
				return muteFollower(cmd.Context(), err)
			}
			return muteEarlyInterrupt(err)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *execFlags) register(flags *pflag.FlagSet) {
	f.registerDevices(flags)
	f.registerMeasurement(flags)
	f.registerTraining(flags)
	f.registerInput(flags)
	f.registerVerbose(flags)
	f.registerOutput(flags, outputHelp{
		json: "print the result as one JSON object and nothing else",
		csv:  "print one row per rank, of all schedules that ran, as CSV and nothing else",
		out:  "folder to write results and pictures to; - for none (default out/measured or out/measured-NAME)",
	})
	f.registerTrace(flags, "also write the measured timeline")
}

// registerDevices declares the flags for devices and processes.
func (f *execFlags) registerDevices(flags *pflag.FlagSet) {
	devices := &f.Measure.Devices
	flags.IntVar(&f.gpus, "gpus", 0, "number of devices (default: as CONFIG says, or 2 without CONFIG)")
	flags.IntVar(&f.gpus, "devices", 0, "the same as --gpus")
	flags.IntVar(&f.processes, "processes", 0,
		"number of processes on this machine to divide the devices among "+
			"(default: one, or as many as mpirun or srun has started)")
	f.group.register(flags)
	flags.StringVar(&f.engine, "engine", engines[0],
		"what trains: gomlx, or torch: PyTorch, by psim export torch's program")
	flags.StringVar(&devices.Backend, "backend", "go", "what computes: go, xla or xla:/absolute/path/of/plugin.so")
	flags.BoolVar(&devices.Share, "share", false, "put all XLA devices on one GPU, or in one process on all cores")
	flags.IntVar(&devices.CoresPerWorker, "cores-per-worker", 0,
		"keep each device on a core of its own (1; on Linux), or compute its products on N cores, unpinned "+
			"(default: one, wherever the system puts it; with XLA on cores, where it stays on N, 1)")
	flags.BoolVar(&devices.Oversubscribe, "oversubscribe", false,
		"allow more devices than cores; times are then not comparable")
	flags.DurationVar(&f.Measure.Train.Run.Stall, "stall", 10*time.Minute,
		"how long nothing may happen before a run counts as stuck")
}

// registerMeasurement declares the flags for measuring, checking and saving.
func (f *execFlags) registerMeasurement(flags *pflag.FlagSet) {
	train := &f.Measure.Train
	flags.IntVar(&train.Steps, "steps", 5, "number of steps to measure")
	flags.IntVar(&train.Epochs, "epochs", 0, "number of passes over the data set to measure, instead of --steps")
	flags.IntVar(&train.Warmup, "warmup", 1,
		"number of steps (with --epochs, of epochs) to train before those that are measured")
	flags.IntVar(&f.Measure.Repeats, "repeats", 3,
		"how often every task is timed by itself, for the prediction, and up to three times that while the machine "+
			"is disturbed; how often a collective is run")
	flags.StringVar(&f.sizes, "sizes", "8B-64MiB",
		"of a collective: tensors from A to B, each four times the one before, and of B")
	flags.IntVar(&f.Tries, "runs", 1,
		"how often to run, at most, until the machine is undisturbed (1 to 3); the least disturbed run counts")
	flags.StringSliceVar(&f.Measure.Checks, "check", nil,
		"compare with the unsplit run (pipedream: a serial replay): weights,output,grads,loss or all")
	flags.IntVar(&f.Starts, "repeat", 1,
		"with --check: how often to start, the devices in another seeded order each time, and to compare")
	flags.Var((*pathValue)(&f.gradients), "save-gradients",
		"folder to write the gradients of the first step to, for every rank a model{rank}_gradients.pth for torch.load")
	flags.BoolVar(&f.UnwaitedRates, "course-rates", false,
		"also print the rate as the courses report it, by a clock that does not wait for devices")
}

// registerTraining declares the flags for the network, its data and its optimizer.
func (f *execFlags) registerTraining(flags *pflag.FlagSet) {
	data := &f.Measure.Data
	flags.BoolVar(&f.perLayer, "per-layer", false,
		"--set train.backward=per-layer: run backwards layer by layer, freeing activations as they go")
	flags.StringVar(&data.Source, "data", "synthetic", "what to train on: synthetic, cifar10:DIR or pairs:FILE")
	flags.BoolVar(&data.Strided, "strided", false, "give replica r the samples r, r+n, … instead of shuffled shards")
	f.registerShards(flags)
	flags.IntVar(&data.Validation, "validation", 0,
		"number of samples to hold out, and to evaluate after every epoch or the last step")
	flags.Uint64Var(&f.Seed, "seed", 1390, "seed of the first weights, and of dropout")
	flags.Float64Var(&f.LearningRate, "learning-rate", 0,
		"of the optimizer (default 1e-4 with adam and adamw, 1e-3 with sgd)")
}

// mostCores bounds the cores of a device.
const mostCores = 1024

// mostSteps bounds steps and repetitions, because the times of all of them are kept.
const mostSteps = 100_000

// checkGiven refuses defaults that stand for a flag left out, such as --gpus 0, if they are given
// explicitly, and flags that cannot be combined.
func (f *execFlags) checkGiven(flags *pflag.FlagSet) error {
	gpus, devices := flags.Changed("gpus"), flags.Changed("devices")
	switch {
	case gpus && devices:
		return errors.New("--gpus and --devices are the same flag; give one of them")
	case (gpus || devices) && f.gpus == 0:
		return errors.New("--gpus 0: there must be at least 1 device")
	case flags.Changed("processes") && f.processes < 1:
		return fmt.Errorf("--processes %d: there must be at least 1 process", f.processes)
	case f.Tries < 1 || f.Tries > 3:
		return fmt.Errorf("--runs %d: must be 1 to 3", f.Tries)
	case flags.Changed("epochs") && f.Measure.Train.Epochs < 1:
		return fmt.Errorf("--epochs %d: at least 1 epoch has to be measured", f.Measure.Train.Epochs)
	case f.Measure.Train.Epochs > 0 && flags.Changed("steps"):
		return errors.New("--epochs and --steps cannot be combined; an epoch has as many steps as its samples fill")
	case f.Starts < 1 || f.Starts > mostSteps:
		return fmt.Errorf("--repeat %d: must be 1 to %d starts", f.Starts, mostSteps)
	case f.perLayer && f.hasSet("train.backward"):
		return errors.New("--per-layer and --set train.backward cannot be combined; " +
			"--per-layer stands for --set train.backward=per-layer")
	case flags.Changed("learning-rate") && f.LearningRate == 0:
		return errors.New("--learning-rate 0: must be above 0 and below 1000, such as 1e-3")
	}
	f.Measure.Train.Gradients = f.gradients != ""
	return nil
}

// validate checks the flags that can be checked without a configuration.
func (f *execFlags) validate() error {
	train := f.Measure.Train
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"steps", train.Steps}, {"epochs", train.Epochs}, {"validation", f.Measure.Data.Validation},
		{"warmup", train.Warmup}, {"repeats", f.Measure.Repeats},
	} {
		if n.value > mostSteps {
			return fmt.Errorf("--%s %d: must be at most %d", n.flag, n.value, mostSteps)
		}
	}
	switch cores := f.Measure.Devices.CoresPerWorker; {
	case f.gpus < 0:
		return fmt.Errorf("--gpus %d: there must be at least 1 device", f.gpus)
	case train.Steps < 1:
		return fmt.Errorf("--steps %d: at least 1 step has to be measured", train.Steps)
	case train.Warmup < 0 || train.Warmup == 0 && len(f.Measure.Checks) > 0:
		return fmt.Errorf("--warmup %d: must be 0 or more, and with --check at least 1, "+
			"because the first step is slower", train.Warmup)
	case cores < 0 || cores > mostCores:
		return fmt.Errorf("--cores-per-worker %d: must be 1 to %d", cores, mostCores)
	case f.Measure.Data.Validation < 0:
		return fmt.Errorf("--validation %d: must be the number of samples to hold out", f.Measure.Data.Validation)
	case f.Measure.Repeats < 1:
		return fmt.Errorf("--repeats %d: every task has to be profiled at least once", f.Measure.Repeats)
	case train.Run.Stall < time.Second:
		return fmt.Errorf("--stall %s: must be at least 1s", train.Run.Stall)
	case !(f.LearningRate >= 0 && f.LearningRate < 1e3):
		return fmt.Errorf("--learning-rate %g: must be above 0 and below 1000, such as 1e-3", f.LearningRate)
	case f.Measure.Devices.Backend == "":
		return errors.New("--backend: must not be empty; use go, xla or xla:/absolute/path/of/plugin.so")
	}
	if err := f.resolveChecks(); err != nil {
		return err
	}
	return f.exclusive()
}

// resolveChecks refuses unknown checks, and replaces "all" by their names.
func (f *execFlags) resolveChecks() error {
	names := measure.CheckNames()
	for _, c := range f.Measure.Checks {
		if c != "all" && !slices.Contains(names, c) {
			return fmt.Errorf("--check %s: use %s or all%s", c, strings.Join(names, ", "), nearest.Suggest(c, names))
		}
	}
	if slices.Contains(f.Measure.Checks, "all") {
		f.Measure.Checks = names
	}
	return nil
}

// configs loads the configurations to run: CONFIG, or the example exec with several schedules. It
// prints what was changed in the first of them.
func (f execFlags) configs(args []string, stderr io.Writer) (list []*configs.Config, err error) {
	name, variants := "exec", session.Modes()
	if len(args) == 1 {
		name = args[0]
	}
	if len(args) == 1 || f.hasSet("schedule.name") {
		variants = []string{""}
	}
	for i, schedule := range variants {
		sets := slices.Clone(f.sets)
		if schedule != "" {
			sets = append([]string{"schedule.name=" + schedule}, f.sets...)
		}
		if f.perLayer {
			sets = append(sets, "train.backward=per-layer")
		}
		c, changes, err := session.Load(name, f.gpus, sets...)
		if err != nil {
			return nil, suggestCollective(name, err)
		}
		for _, change := range changes {
			if i == 0 && !f.quiet {
				fmt.Fprintf(stderr, "%s: %s\n", visible(c.Name()), change)
			}
		}
		list = append(list, c)
	}
	return list, nil
}

func runExec(ctx context.Context, args []string, f execFlags, std streams) error {
	if f.Starts > 1 && len(f.Measure.Checks) == 0 {
		return fmt.Errorf("--repeat %d: nothing is compared; say what with --check output, weights, grads, loss or all",
			f.Starts)
	}
	list, err := f.configs(args, std.err)
	if err != nil {
		return err
	}
	name := "measured"
	if len(args) == 1 {
		name += "-" + list[0].Name()
	}
	folder, gradients, err := f.folders(list, strings.Join(args, ""), name)
	if err == nil {
		err = f.findPython(ctx)
	}
	if err != nil {
		return err
	}
	f.registerWarnings(std.err)
	f.note(std.err, func() []string { return session.Notes(list, f.Options) })
	check := func() error { return f.Options.Check(list...) }
	return f.inProcesses(ctx, leastRanks(list), check, func() error {
		s, err := f.session(ctx, list, std.err)
		if len(s.Runs) == 0 {
			return err
		}
		if err != nil {
			folder, gradients = folder.Aside(), gradients.Aside()
		}
		unsaved := f.saveGradients(ctx, s, gradients, std.err) // before printing, as all files
		return errors.Join(f.report(ctx, s, folder, std), unsaved, err)
	})
}

// registerWarnings warns of a build that computes slowly, and prints the warnings of a run on stderr.
func (f *execFlags) registerWarnings(stderr io.Writer) {
	if f.quiet {
		return
	}
	trains := f.Python == "" || len(f.Measure.Checks) > 0
	if trains && f.Measure.Devices.Backend == "go" && !backend.SIMDCompiled {
		fmt.Fprintln(stderr, "psim: built without GOEXPERIMENT=simd: training takes about ten times as long as with it")
	}
	f.Warn = func(warning string) { fmt.Fprintln(stderr, "psim:", visible(warning)) }
}

// folders returns where results and gradients go; an empty path stands for nowhere. It refuses folders
// that cannot be written to before the run, which may take long.
func (f *execFlags) folders(list []*configs.Config, config, name string) (folder, gradients files.Folder, err error) {
	var inputs []string
	for _, c := range list {
		inputs = append(inputs, c.Files()...)
	}
	if _, path, ok := strings.Cut(f.Measure.Data.Source, ":"); ok {
		inputs = append(inputs, path)
	}
	if err = f.checkTrace(config, inputs); err != nil {
		return folder, gradients, err
	}
	byDefault := filepath.Join("out", folderName(name, f.sets))
	folder = f.outputFolder(reports.RunFolder(byDefault, results.Measured, severalSchedules(list)...))
	folder.Inputs = inputs
	if err = f.checkOut(folder); err != nil {
		return folder, gradients, err
	}
	gradients, err = f.gradientFolder(list)
	return folder, gradients, err
}

// session runs configurations and shows its progress.
func (f *execFlags) session(
	ctx context.Context, list []*configs.Config, stderr io.Writer,
) (*session.Session, error) {
	progress := newProgress(stderr, f.quiet || f.json || f.csv)
	defer progress.clear()
	s := &session.Session{Options: f.Options}
	s.Shards, s.Measure.Stage = f.shards, progress.show
	return s, s.Run(ctx, list...)
}

// severalSchedules returns the names of the schedules if there are several configurations.
func severalSchedules(list []*configs.Config) (names []string) {
	if len(list) > 1 {
		names = session.Modes()
	}
	return names
}

// report writes the files and prints the results. After an interrupt it keeps what was measured, and
// it prints even if the files cannot be written.
func (f execFlags) report(ctx context.Context, s *session.Session, folder files.Folder, std streams) error {
	_, measured := s.Main().Sides()
	unsaved := s.Save(context.WithoutCancel(ctx), folder, f.traceFile(measured)...)
	if err := errors.Join(f.print(s, std.out), unsaved); err != nil {
		return failure{err}
	}
	if folder.Path != "" {
		f.warnMissingFiles(measured, std.err)
		names := "result.json, compare.png, timeline.png, trace.csv and more"
		if folder.Partial {
			names += ", of what was measured until the interrupt,"
		}
		f.reportWritten(std.err, names, folder.Path)
	}
	return failed(s.Err())
}

func (f execFlags) print(s *session.Session, stdout io.Writer) error {
	switch {
	case f.json:
		return s.Result().WriteJSON(stdout)
	case f.csv && f.shards:
		return reports.WriteShardsCSV(stdout, s.Result().Shards)
	case f.csv:
		return reports.WriteResultCSV(stdout, s.Result())
	}
	return errors.Join(s.WriteText(stdout), f.printShards(s.Result(), stdout))
}
