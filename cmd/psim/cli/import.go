package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"psim/configs"
	"psim/internal/files"
	"psim/launch"
	"psim/reports"
)

type importFlags struct {
	outputFlags
	targetFlags
	arguments []string
	inputs    []launch.Input // that were read
}

const importManual = `import turns what a training was started with, or what it printed, into a
configuration. It reads Megatron-LM's: a log that prints its arguments, a launch script
(bash, which is expanded and never run), or the model_config.yaml of a functional test. A
log says what ran; a script that is named as well is compared with it. Files that a
script sources are named after it, and --arg gives $1, $2 and so on.

It also reads scripts that start torchtitan 0.3, the TOML of torchtitan up to 0.2, and the
YAML of nanotron and of Megatron-Bridge (run_config.yaml), and the config_*.sh of language
models in MLPerf Training, with the files that they source.
With the config.json of a network it reads the JSON of DeepSpeed; TrainingArguments of
transformers' Trainer in YAML, in JSON, or as flags in a script; and the file that
accelerate config writes. Name all files of a run together, and its log (docs/logs.md):
what these programs print of their configuration is read from it, too.

Every argument becomes a key, or is without effect on a step's time and memory, or is
listed with what it may change. No log names its GPU: --device does.

The configuration goes to -o, or to stdout.`

func newImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import LOG|SCRIPT…",
		Short: "make a configuration of a training's log or launch script",
		Long:  importManual,
		Example: `  psim import train.log -o mine.toml
  psim import run.sh train.log common.sh
  psim import run.sh common.sh --devices 64 --json
  psim import ds_config.json config.json --devices 8 --set model.sequence_length=4096
  psim import args.yaml accelerate.yaml config.json trainer.log
  psim import finetune.sh accelerate.yaml config.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New(
					"import takes a log, a launch script, or both, not nothing\nsee \"psim import --help\"",
				)
			}
			return nil
		},
		RunE: f.run,
	}
	f.registerInput(cmd.Flags())
	f.targetFlags.register(cmd)
	cmd.Flags().IntVar(&f.target.Devices, "devices", 0, "number of devices, where the files do not say it")
	cmd.Flags().StringArrayVar(&f.arguments, "arg", nil, "an argument of the script, $1 first; may be repeated")
	cmd.Flags().BoolVar(
		&f.json,
		"json",
		false,
		"print what was understood as one JSON object, the configuration in it",
	)
	cmd.Flags().VarP((*pathValue)(&f.out), "out", "o", "file to write the configuration to (default: stdout)")
	registerOverwrite(cmd.Flags(), &f.overwrite)
	return cmd
}

func (f *importFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(cmd.Flags()); err != nil {
		return err
	}
	to := namedFile{"out", f.out, "import", f.overwrite}
	toFile := f.out != "" && f.out != "-"
	if toFile {
		for _, name := range args {
			if files.Same(name, f.out) {
				return fmt.Errorf("--out %s: is one of the inputs; name another file", f.out)
			}
		}
		if err := to.check(); err != nil {
			return err
		}
	}
	understood, err := f.read(args)
	if err != nil {
		return err
	}
	config, err := f.complete(cmd.Context(), understood, args)
	if err != nil {
		return err
	}
	std := streamsOf(cmd)
	if toFile {
		err := to.write(cmd.Context(), func(w io.Writer) error { _, err := w.Write(config); return err })
		if err != nil {
			return failed(err)
		}
	}
	if f.json {
		return files.WriteJSON(std.out, understood)
	}
	if err := f.say(std.err, understood); err != nil {
		return err
	}
	if !toFile {
		_, err = std.out.Write(config)
		return err
	}
	next := "psim run " + reports.ShellWord(f.out)
	if f.target.Device == "" {
		next += " --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr"
	}
	_, err = fmt.Fprintf(std.out, "wrote %s; predict its step with\n  %s\n", f.out, next)
	return err
}

// say says what was understood; --quiet leaves only that a log was misread, which makes the answer another one.
func (f *importFlags) say(w io.Writer, understood *launch.Import) (err error) {
	if m := understood.Measured; !f.quiet {
		err = understood.WriteText(w)
	} else if m != nil && m.Misread() {
		_, err = fmt.Fprintf(w, "psim: %s\n", strings.Join(m.Misreadings(), "\npsim: "))
	}
	return err
}

// read reads the files.
func (f *importFlags) read(names []string) (*launch.Import, error) {
	for _, name := range names {
		data, err := readInput(name)
		if err != nil {
			return nil, err
		}
		f.inputs = append(f.inputs, launch.Input{Label: name, Data: data})
	}
	return launch.Read(f.inputs, f.options())
}

// options returns what the user says besides the files.
func (f *importFlags) options() launch.Options {
	return launch.Options{
		Devices: f.target.Devices, DevicesPerNode: f.target.DevicesPerNode, Arguments: f.arguments,
	}
}

// readInput reads a log or a script.
func readInput(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file; name a log or a launch script", name)
	} else if err == nil && info.Size() > launch.MostBytes {
		return nil, fmt.Errorf("%s: has %d MB; psim reads logs and scripts of at most %d MB",
			name, info.Size()>>20, launch.MostBytes>>20)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, files.Reason(err))
	}
	return data, nil
}

// someMachine checks a configuration for which no device was named.
var someMachine = configs.Target{Device: "h100-80gb-sxm", DevicesPerNode: 8, Network: "ib-ndr"}

// unseen is the position in a text that the user has not seen.
var unseen = regexp.MustCompile(`^(the configuration of .*?):\d+(?::\d+)?: `)

// place makes the path of the network's file one from the root, wherever the configuration goes.
func place(config map[string]any) (err error) {
	model, _ := config["model"].(map[string]any)
	if name, ok := model["file"].(string); ok {
		model["file"], err = filepath.Abs(name)
	}
	return err
}

// machine returns [machine] as the flags have it.
func (f *importFlags) machine() map[string]any {
	machine := map[string]any{}
	for key, value := range map[string]string{
		"device": f.target.Device, "network": f.target.Network, "site": f.site,
	} {
		if value != "" {
			machine[key] = value
		}
	}
	if n := f.target.DevicesPerNode; n > 0 {
		machine["devices_per_node"] = n
	}
	return machine
}

// loggedPlan returns what the rates of logs depend on.
func loggedPlan(c *configs.Config, e *configs.Experiment) launch.LoggedPlan {
	return launch.LoggedPlan{
		Samples: int(e.Samples), Tokens: e.Network.TokensPerSample, Devices: int(c.Devices()),
		Replicas: max(1, c.Parallel.Data), Parameters: trainedIn(e), Microbatches: e.Graph.Shape.Microbatches,
	}
}

// trainedIn returns the parameters that training changes; 0 without a network.
func trainedIn(e *configs.Experiment) int64 {
	if e.Staged == nil {
		return 0
	}
	return e.Network.Trained()
}

// settingsOf returns settings that logs print as well, by key.
func settingsOf(c *configs.Config) map[string]string {
	return map[string]string{
		"parallel.tensor": strconv.Itoa(max(1, c.Parallel.Tensor)), "parallel.zero": strconv.Itoa(c.Parallel.Zero),
		"train.precision": cmp.Or(c.Train.Precision, "fp32"),
	}
}

// addPrinted adds to what a log says of its steps what its printed configuration says, if it has one that can be read
// alone, and which of the given settings it has otherwise.
func addPrinted(ctx context.Context, log launch.Input, steps *launch.LoggedSteps, held map[string]string) {
	i, err := launch.Read([]launch.Input{log}, launch.Options{})
	if err != nil {
		return
	}
	var text bytes.Buffer
	if configs.WriteObject(&text, nil, i.Config) != nil {
		return
	}
	c, err := configs.ParseOn(log.Label, text.Bytes(), someMachine)
	if err != nil {
		return
	}
	e, err := c.BuildFor(ctx, configs.BuildOptions{Folded: true, Brief: true})
	if err != nil {
		return
	}
	steps.Parameters = cmp.Or(steps.Parameters, trainedIn(e))
	steps.Tokens = cmp.Or(steps.Tokens, e.Network.TokensPerSample)
	ran := settingsOf(c)
	if steps.Program != "torchtitan" || steps.Devices > 0 {
		steps.Batch, steps.Devices = cmp.Or(steps.Batch, int(e.Samples)), int(c.Devices())
	} else {
		delete(ran, "parallel.zero") // one device, which is assumed, shards nothing
	}
	for _, key := range slices.Sorted(maps.Keys(ran)) {
		if is, known := held[key]; known && is != ran[key] {
			steps.Settings = append(steps.Settings, launch.Difference{From: key, Script: is, Log: ran[key]})
		}
	}
}

// complete adds the machine, checks the configuration, and returns it as a file.
func (f *importFlags) complete(ctx context.Context, understood *launch.Import, names []string) ([]byte, error) {
	machine := f.machine()
	on := configs.Target{}
	switch {
	case f.target.Device == "":
		on = someMachine
		understood.Missing = append(
			understood.Missing,
			launch.Question{Key: "machine.device", Ask: "no log or script names its " +
				"device: --device D (psim list devices), --devices-per-node N and --network L say where it ran"},
		)
		if len(machine) > 0 {
			return nil, errors.New("--device is missing: --devices-per-node, --network and --site are about it")
		}
	default:
		if n := understood.EachNode; n > 0 && f.target.DevicesPerNode == 0 {
			machine["devices_per_node"] = n
		}
		understood.Config["machine"] = machine
	}
	for _, set := range f.sets {
		key, err := configs.SetIn(understood.Config, set)
		if err != nil {
			return nil, err
		}
		understood.Missing = slices.DeleteFunc(understood.Missing, func(q launch.Question) bool { return q.Key == key })
	}
	if err := place(understood.Config); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	comment := []string{"Read by psim import from " + strings.Join(names, ", ") + "."}
	if err := configs.WriteObject(&text, comment, understood.Config); err != nil {
		return nil, err
	}
	c, err := configs.ParseOn("the configuration of "+names[0], text.Bytes(), on)
	if err == nil {
		var e *configs.Experiment
		e, err = c.BuildFor(ctx, configs.BuildOptions{Folded: true, Brief: true})
		if err == nil && understood.Measured != nil {
			understood.Measured.Complete(loggedPlan(c, e))
		}
	}
	if err != nil {
		return nil, f.problem(err, understood)
	}
	return text.Bytes(), nil
}

// problem says what is wrong with a configuration that was read, which the user has not seen.
func (f *importFlags) problem(err error, understood *launch.Import) error {
	text := unseen.ReplaceAllString(err.Error(), "$1: ")
	if f.target.Network == "" && strings.Contains(text, "machine.network: ") {
		text += " (--network ib-hdr; psim list links)"
	}
	return errors.New(text + understood.Origin(text))
}
