package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	lib "psim"
	"psim/configs"
	"psim/exec/session"
	"psim/export"
	"psim/internal/files"
	"psim/internal/units"
	"psim/reports"
	"psim/results"
)

// exportFormats are the programs for which psim export writes.
var exportFormats = []string{"torch", "megatron", "torchtitan", "deepspeed", "accelerate", "nemo", "nanotron"}

// exportScripts write one file each.
var exportScripts = map[string]scriptWriter{
	"megatron": export.WriteMegatron, "torchtitan": export.WriteTorchtitan, "deepspeed": export.WriteDeepSpeed,
	"nemo": export.WriteNemo, "nanotron": export.WriteNanotron,
}

// exportedProgram is the file that psim export torch writes.
const exportedProgram = "train.py"

// exportedWeights is the file that psim export torch --weights writes.
const exportedWeights = "weights.safetensors"

type exportFlags struct {
	outputFlags
	targetFlags
	weights bool
	format  string
}

const exportManual = `export writes what another program trains by. torch is a Python program that needs
PyTorch (2.8 or later) and nothing else. It trains CONFIG's network by psim's order,
with torch.distributed.pipelining's own runtime, or by DistributedDataParallel
(parallel.data), or fully_shard by psim's units (parallel.zero = 3). Replicas of a
pipeline sum their gradients by psim's buckets. It starts a process for every rank, or
torchrun does; with a GPU for each it runs on GPUs over nccl, otherwise on CPUs over
gloo. It trains in fp32, on psim's made-up samples, and writes result.json and trace.csv
of what it measured, which psim compare and plot read.

--weights also writes the weights that psim exec begins with, and its first batch, as
weights.safetensors (at most 4 GB of them). Then the program's first loss is psim's:
  psim export torch exec --weights -o torch
  python torch/train.py --start torch/weights.safetensors

A key that the program cannot follow is an error that names the key. It has the families
gpt, llama (dense, with rotary positions of a base of 10,000, over all earlier tokens),
vgg and mlp. psim does not train llama itself: there are no --weights of it.

megatron is a launch script for torchrun and Megatron-LM's pretrain_gpt.py, of the version
that its header names: the network, the groups of devices, the batch, precision,
recomputation and overlaps as flags. Data, tokenizer and learning rate are yours. psim
reads the script back (psim import) and compares it with CONFIG: a key that Megatron-LM
cannot follow is an error that names the key. torchtitan is the same for torchtitan, of
the networks that its registry has. deepspeed is its JSON: the batch, ZeRO, precision and
optimizer, without what a script decides (the network, recomputation). nemo is the
run_config.yaml of Megatron-Bridge, and nanotron its YAML. accelerate is a folder with
args.yaml, which are TrainingArguments of transformers' Trainer, and accelerate.yaml for
accelerate launch --config_file.`

func newExport() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export FORMAT CONFIG",
		Short: "write what trains by the plan elsewhere: a program, a launch script, a configuration",
		Long:  exportManual,
		Example: `  psim export torch exec -o torch
  psim export torch exec --set schedule.name=zb-h1 --overwrite -o torch
  psim export megatron llama3-70b -o train.sh
  psim export torchtitan llama3-8b --device h100-80gb-sxm --devices 8 -o train.sh
  psim export nemo llama3-70b -o run_config.yaml`,
		Args:              argsBetween(2, 2, "a format ("+strings.Join(exportFormats, ", ")+") and one CONFIG"),
		ValidArgsFunction: completeExport,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.targetFlags.check(cmd.Flags()); err != nil {
				return err
			}
			f.format = args[0]
			if write := exportScripts[f.format]; write != nil {
				return f.script(cmd.Context(), args[1], streamsOf(cmd), write)
			}
			switch f.format {
			case "torch":
				return f.run(cmd.Context(), args[1], streamsOf(cmd))
			case "accelerate":
				return f.accelerate(cmd.Context(), args[1], streamsOf(cmd))
			}
			return fmt.Errorf("unknown format %q; psim export writes %s",
				args[0], strings.Join(exportFormats, ", "))
		},
	}
	f.registerInput(cmd.Flags())
	f.targetFlags.register(cmd)
	f.registerDevices(cmd.Flags())
	cmd.Flags().VarP((*pathValue)(&f.out), "out", "o",
		"folder to write "+exportedProgram+" to; file of a script (- for stdout)")
	cmd.Flags().BoolVar(&f.weights, "weights", false,
		"also write psim's own first weights and batch, as "+exportedWeights)
	registerOverwrite(cmd.Flags(), &f.overwrite)
	return cmd
}

func (f exportFlags) run(ctx context.Context, name string, std streams) error {
	switch f.out {
	case "":
		return fmt.Errorf("--out is missing: name the folder to write %s to, as in -o torch", exportedProgram)
	case "-":
		return fmt.Errorf("--out -: %s goes to a folder, next to what it measures; name one, as in -o torch",
			exportedProgram)
	}
	c, err := f.loadPlan(ctx, name, f.sets)
	if err != nil {
		return err
	}
	folder := f.to(files.Folder{
		Path: f.out, Owner: "export", Guarded: f.written(), Named: true, Inputs: c.Files(),
	})
	if err := usageError("out", folder.Check()); err != nil {
		return err
	}
	var program bytes.Buffer
	changes, err := export.WriteTorch(&program, c)
	if err != nil {
		return err
	}
	list := []files.File{{Path: exportedProgram, Render: func(w io.Writer) error {
		_, err := w.Write(program.Bytes())
		return err
	}}}
	command := "python " + reports.ShellWord(f.out) + "/" + exportedProgram
	if f.weights {
		start, err := session.Start(c)
		if err != nil {
			return fmt.Errorf("--weights: %w", err)
		}
		list = append(list, files.File{Path: exportedWeights, Render: start.Write})
		command += " --start " + reports.ShellWord(f.out) + "/" + exportedWeights
	}
	if !f.quiet {
		for _, change := range changes {
			fmt.Fprintln(std.err, "psim:", change)
		}
	}
	if err := folder.Write(ctx, list); err != nil {
		return failed(err)
	}
	_, err = fmt.Fprintf(std.out, "wrote %s; run it with\n  %s\n", f.names(), command)
	return err
}

// The files that psim export accelerate writes.
const (
	exportedArguments = "args.yaml"
	exportedLauncher  = "accelerate.yaml"
)

// accelerate writes TrainingArguments and accelerate's file.
func (f exportFlags) accelerate(ctx context.Context, name string, std streams) error {
	switch {
	case f.weights:
		return errors.New("--weights goes with psim export torch")
	case f.out == "":
		return fmt.Errorf("--out is missing: name the folder to write %s and %s to, as in -o hf", exportedArguments,
			exportedLauncher)
	case f.out == "-":
		return fmt.Errorf("--out -: %s and %s are two files, which stdout does not keep apart; name a folder, as in "+
			"-o hf", exportedArguments, exportedLauncher)
	}
	c, err := f.loadPlan(ctx, name, f.sets)
	if err != nil {
		return err
	}
	folder := f.to(files.Folder{
		Path: f.out, Owner: "export", Guarded: []string{exportedArguments, exportedLauncher}, Named: true,
		Inputs: c.Files(),
	})
	if err := usageError("out", folder.Check()); err != nil {
		return err
	}
	made, followed, err := export.Accelerate(ctx, c)
	if err == nil {
		err = f.say(ctx, std.err, c, followed)
	}
	if err != nil {
		return err
	}
	of := func(data []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(data); return err }
	}
	err = folder.Write(ctx, []files.File{
		{Path: exportedArguments, Render: of(made.Arguments)}, {Path: exportedLauncher, Render: of(made.Launcher)},
	})
	if err != nil {
		return failed(err)
	}
	at := reports.ShellWord(f.out) + "/"
	back := "psim import " + at + exportedArguments + " " + at + exportedLauncher + " config.json" + lengthOf(c)
	if device := c.Machine.Device; device != "" {
		back += " --device " + reports.ShellWord(device)
	}
	_, err = fmt.Fprintf(std.out, "wrote %s%s and %s; read them back with\n  %s\n", at, exportedArguments,
		exportedLauncher, back)
	return err
}

// lengthOf returns the flag for the length of a sample, which a script decides.
func lengthOf(c *configs.Config) string {
	m, err := c.ReadModel()
	if err == nil {
		m, err = m.Resolved()
	}
	if err != nil || m.SequenceLength == 0 {
		return ""
	}
	return fmt.Sprintf(" --set model.sequence_length=%d", m.SequenceLength)
}

// say says what a program follows otherwise than the configuration has it, and what that does to the prediction.
func (f exportFlags) say(ctx context.Context, w io.Writer, c *configs.Config, followed *export.Followed) error {
	if f.quiet {
		return nil
	}
	for _, change := range followed.Changes {
		fmt.Fprintln(w, "psim:", change)
	}
	if reflect.DeepEqual(c.Object(), followed.Config.Object()) {
		return nil
	}
	before, err := lib.Estimate(ctx, c)
	if err != nil {
		return err
	}
	after, err := lib.Estimate(ctx, followed.Config)
	if err != nil {
		return err
	}
	if r := &after.Result; r.MemoryVerdict == results.DoesNotFit {
		fmt.Fprintf(w, "psim: it does not fit: %s of %s\n", units.FormatBytes(r.PeakMemory()),
			units.FormatBytes(r.Ranks[0].MemoryCapacity))
	}
	was, is := before.Result.StepTime, after.Result.StepTime
	_, err = fmt.Fprintf(w, "psim: with this the predicted step is %s, and was %s: %s\n", units.FormatSeconds(is),
		units.FormatSeconds(was), units.FormatSignedPercent(is/was-1))
	return err
}

// A scriptWriter writes a launch script, and returns what the program follows.
type scriptWriter func(context.Context, io.Writer, *configs.Config) (*export.Followed, error)

// script writes a launch script.
func (f exportFlags) script(ctx context.Context, name string, std streams, write scriptWriter) error {
	to := namedFile{"out", f.out, "export", f.overwrite}
	switch {
	case f.weights:
		return errors.New("--weights goes with psim export torch")
	case f.out == "":
		return errors.New("--out is missing: name the script to write, as in -o train.sh")
	}
	if f.out != "-" {
		if err := to.check(); err != nil {
			return err
		}
	}
	c, err := f.loadPlan(ctx, name, f.sets)
	if err != nil {
		return err
	}
	var script bytes.Buffer
	followed, err := write(ctx, &script, c)
	if err == nil {
		err = f.say(ctx, std.err, c, followed)
	}
	if err != nil {
		return err
	}
	if f.out == "-" {
		_, err = std.out.Write(script.Bytes())
		return err
	}
	if err := to.write(ctx, func(w io.Writer) error { _, err := w.Write(script.Bytes()); return err }); err != nil {
		return failed(err)
	}
	back := "psim import " + reports.ShellWord(f.out)
	switch f.format { // whose files do not say everything
	case "deepspeed":
		back += fmt.Sprintf(" config.json --devices %.0f", c.Devices()) + lengthOf(c)
	case "nemo":
		back += fmt.Sprintf(" --devices %.0f", c.Devices())
	}
	if device := c.Machine.Device; device != "" { // no argument names it
		back += " --device " + reports.ShellWord(device)
	}
	_, err = fmt.Fprintf(std.out, "wrote %s; read it back with\n  %s\n", reports.ShellWord(f.out), back)
	return err
}

// written lists the files.
func (f exportFlags) written() []string {
	if f.weights {
		return []string{exportedProgram, exportedWeights}
	}
	return []string{exportedProgram}
}

// names names the files, for people.
func (f exportFlags) names() string {
	return reports.ShellWord(f.out) + "/" + strings.Join(f.written(), " and ")
}

// completeExport completes the format, and then the configuration.
func completeExport(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return exportFormats, cobra.ShellCompDirectiveNoFileComp
	}
	return completeConfig(cmd, args[1:], text)
}
