package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"psim/calibrate"
	"psim/calibrate/layers"
	"psim/configs"
	"psim/configs/machinefile"
	"psim/exec/measure"
	"psim/internal/files"
	"psim/reports"
)

type calibrateFlags struct {
	outputFlags
	samples []int
	repeats int
	nccl    []string
	engine  string
	runs    string
}

// Defaults of CONFIG and --out.
const (
	defaultNetwork     = "exec"
	defaultMachineFile = "my-machine.toml"
	defaultLinkFile    = "my-link.toml"  // with --nccl
	defaultTorchFile   = "my-torch.toml" // with --engine torch
	defaultSiteFile    = "my-site.toml"  // with --runs
)

const calibrateManual = `calibrate runs every layer of a network by itself on one core of this machine,
with gomlx's Go backend, for a few sizes of microbatch: its forward, its backward
and both halves of that, and the optimizer's step. It also times copies between two
devices. The medians go into a machine file, with which psim run predicts other
schedules, splits and numbers of microbatches of the same layers on this machine.
For other layers the file has rates fitted to the measurements.

CONFIG is a file or an example with a [model]; without it, calibrate measures the small
GPT-2 of the example exec. Nothing else should run meanwhile.

--engine torch instead times the tasks of a pipeline in PyTorch, on processes of this
machine: every stage's F, B, I and W, the update and messages, alone and while the other
processes compute. It writes their medians as a configuration with [times], which psim
run predicts from.

--nccl FILE instead fits a link to the output of nccl-tests' all_reduce_perf,
all_gather_perf and reduce_scatter_perf, text or JSON (-J), or of psim exec with such
a collective. A file holds one test or several. For every collective and number of ranks
calibrate fits a start-up time and a bandwidth in up to three ranges of sizes. It prints
the fit and its errors, and writes my-link.toml. Without all_gather_perf and
reduce_scatter_perf these collectives take half of an all-reduce's steps, and the call.
Messages between stages take the bandwidth of the fewest ranks.

--runs FILE instead fits what runs on your own cluster say of it: the speed of its
network, the clock of its devices and how much its nodes differ in speed, in this order
and one for two runs, each drawn towards the catalog's. From three runs on it says how
far off a run is that was left out. The file, my-site.toml, goes into machine.site.`

func newCalibrate() *cobra.Command {
	var f calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate [CONFIG]",
		Short: "measure layers here, or fit links to nccl-tests, and write a machine file",
		Long:  calibrateManual,
		Example: `  psim calibrate --samples 1,2 --repeats 1
  psim run exec --set machine.file=my-machine.toml --set schedule.name=gpipe
  psim calibrate --set model.hidden=64 --quiet --repeats 1 --out small.toml
  psim calibrate --engine torch exec --set schedule.name=zbv --set schedule.virtual_stages=2
  psim calibrate --runs runs.csv -o mysite.toml
  psim calibrate --nccl 2-gpus.txt --nccl 8-gpus.json --out nvlink.toml
  psim calibrate --nccl all_reduce.txt --nccl all_gather.txt --nccl reduce_scatter.txt`,
		Args:              argsBetween(0, 1, "one CONFIG or none"),
		ValidArgsFunction: completeConfig,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !slices.Contains(engines, f.engine):
				return fmt.Errorf("--engine %s: use %s", f.engine, strings.Join(engines, " or "))
			case cmd.Flags().Changed("runs"):
				return f.runSite(cmd, args)
			case f.engine == engines[1]:
				return f.runTorch(cmd, args)
			case len(f.nccl) == 0:
				return f.run(cmd.Context(), args, streamsOf(cmd))
			}
			return f.runLink(cmd, args)
		},
	}
	flags := cmd.Flags()
	f.registerInput(flags)
	f.out = defaultMachineFile
	flags.StringVarP(&f.out, "out", "o", f.out, "machine file to write (default with --runs "+defaultSiteFile+")")
	registerOverwrite(flags, &f.overwrite)
	flags.StringVar(&f.engine, "engine", engines[0], "measure layers with gomlx, or tasks of a pipeline in torch")
	flags.StringArrayVar(&f.nccl, "nccl", nil,
		"fit a link to this output of nccl-tests, or of psim exec COLLECTIVE; may be repeated")
	flags.StringVar(&f.runs, "runs", "",
		"fit a site to the measured runs of this CSV file: columns config, step_time and keys of the configuration")
	flags.IntSliceVar(&f.samples, "samples", nil,
		"sizes of microbatches to measure (default the configuration's, half and twice that)")
	flags.IntVar(&f.repeats, "repeats", 9, "how often each time is measured; the median counts")
	flags.BoolVar(&f.json, "json", false, "print the measurements as one JSON object and nothing else")
	return cmd
}

// runLink fits a link to the files of --nccl.
func (f calibrateFlags) runLink(cmd *cobra.Command, args []string) error {
	if !cmd.Flags().Changed("out") {
		f.out = defaultLinkFile
	}
	if len(args) > 0 || len(f.sets) > 0 || f.samples != nil || cmd.Flags().Changed("repeats") {
		return errors.New("--nccl fits a link to files and measures nothing here; " +
			"leave out CONFIG, --set, --samples and --repeats")
	}
	return f.runNCCL(cmd.Context(), streamsOf(cmd))
}

func (f calibrateFlags) run(ctx context.Context, args []string, std streams) error {
	name, c, err := f.load(args)
	if err != nil {
		return err
	}
	network, micro, err := c.Trained()
	if err != nil {
		return err
	}
	o := measure.LayerOptions{Samples: f.samples, Repeats: f.repeats}
	if o.Samples == nil {
		o.Samples = layers.Sizes(micro)
	}
	progress := newProgress(std.err, f.quiet)
	o.Progress = func(done, of int) { progress.showf("measuring layers: %d %%", 100*done/of) }
	calibration, err := layers.Measure(ctx, network, c.Train.Options, o)
	progress.clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	calibration.File, calibration.Command = f.out, f.command(name)
	render := func(w io.Writer) error { return machinefile.Write(w, calibration.Machine, calibration.Comment()) }
	unsaved := failed(f.file().write(ctx, render))
	next := f.nextCommand(name)
	if unsaved != nil {
		next = ""
	}
	return errors.Join(f.print(calibration, next, std.out), unsaved)
}

// load checks the flags, and loads the configuration that is measured.
func (f calibrateFlags) load(args []string) (name string, c *configs.Config, err error) {
	if err = f.check(); err != nil {
		return "", nil, err
	}
	name = defaultNetwork
	if len(args) == 1 {
		name = args[0]
	}
	if c, err = configs.Load(name, f.sets...); err != nil {
		return "", nil, err
	}
	return name, c, f.checkInputs(c.Files())
}

func (f calibrateFlags) print(c *layers.Calibration, next string, stdout io.Writer) error {
	if f.json {
		return c.WriteJSON(stdout)
	}
	return c.WriteText(stdout, next)
}

// check refuses wrong flags, and a file that cannot be written, before anything is measured.
func (f calibrateFlags) check() error {
	if f.repeats < 1 || f.repeats > mostSteps {
		return fmt.Errorf("--repeats %d: must be between 1 and %d", f.repeats, mostSteps)
	}
	for _, n := range f.samples {
		if n < 1 {
			return fmt.Errorf("--samples %d: a microbatch has at least 1 sample", n)
		}
	}
	if f.out == "" || f.out == "-" {
		return fmt.Errorf("--out %s: name a file; calibrate writes its measurements nowhere else", f.out)
	}
	return f.file().check()
}

// checkInputs refuses to replace a file that is read.
func (f calibrateFlags) checkInputs(paths []string) error {
	folder, _ := f.file().folder()
	folder.Inputs = paths
	return usageError("out", folder.Check())
}

// file returns the machine file. A measured one and a link do not replace each other.
func (f calibrateFlags) file() namedFile {
	owner := "calibrate"
	switch {
	case f.runs != "":
		owner = "calibrate --runs"
	case len(f.nccl) > 0:
		owner = "calibrate --nccl"
	case f.engine == engines[1]:
		owner = "calibrate --engine torch"
	}
	return namedFile{"out", f.out, owner, f.overwrite}
}

// command returns the command line that repeats the calibration.
func (f calibrateFlags) command(name string) string {
	line := []string{"psim calibrate"}
	if f.engine != engines[0] {
		line = append(line, "--engine", f.engine)
	}
	line = append(append(line, reports.ShellWord(name)), f.setFlags()...)
	if f.samples != nil {
		line = append(line, "--samples", strings.Trim(strings.ReplaceAll(fmt.Sprint(f.samples), " ", ","), "[]"))
	}
	return strings.Join(append(line, fmt.Sprintf("--repeats %d --out %s", f.repeats, reports.ShellWord(f.out))), " ")
}

// nextCommand returns the command line that uses the machine file.
func (f calibrateFlags) nextCommand(name string) string {
	line := append([]string{"psim run", reports.ShellWord(name)}, f.setFlags()...)
	return strings.Join(append(line, "--set", reports.ShellWord("machine.file="+f.out)), " ")
}

// setFlags returns the flags --set as they were given, quoted for a shell.
func (f calibrateFlags) setFlags() []string {
	var words []string
	for _, s := range f.sets {
		words = append(words, "--set", reports.ShellWord(s))
	}
	return words
}

func (f calibrateFlags) runNCCL(ctx context.Context, std streams) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.checkInputs(f.nccl); err != nil {
		return err
	}
	fit, err := calibrate.FitLink(f.nccl...)
	if err != nil {
		return flagged("nccl", err)
	}
	wrote := "wrote"
	if files.Exists(f.out) {
		wrote = "replaced"
	}
	fit.File, fit.Command = f.out, "psim calibrate"
	for _, path := range f.nccl {
		fit.Command += " --nccl " + reports.ShellWord(path)
	}
	fit.Command += " --out " + reports.ShellWord(f.out)
	unsaved := failed(f.file().write(ctx, fit.WriteMachine))
	if f.json {
		return errors.Join(fit.WriteJSON(std.out), unsaved)
	}
	if err := errors.Join(fit.WriteTable(std.out), unsaved); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "\n%s %s; use it with\n  psim run CONFIG --set %s --set machine.device=DEVICE\n"+
		"where all devices are in one node, and otherwise with file = %q in [machine]\n",
		wrote, f.out, reports.ShellWord("machine.file="+f.out), f.out)
	return err
}
