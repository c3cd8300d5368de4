package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	lib "psim"
	"psim/advise"
	"psim/configs"
	"psim/internal/files"
	"psim/internal/units"
	"psim/launch"
	"psim/profiles"
	"psim/reports"
	"psim/results/judged"
)

type explainFlags struct {
	importFlags
	log, measured, emit string
	profiles            []string               // names of traces
	profiled            *profiles.ProfiledStep // by these; nil without
	messages, answers   io.Writer              // where progress is shown, and where answers go
	program             string                 // that the files are of, as an Import calls it
	only                map[string][]string    // what these can be told, as an Import has it
	patched             bool                   // a patch of several files is written, in place of a script
}

const explainManual = `explain holds a step that was measured against its prediction. The step comes from a
log (docs/logs.md), from --measured, or from --profile; the configuration from the log,
from a launch script (psim import), or from CONFIG.

--profile TRACE reads traces of PyTorch's profiler (prof.export_chrome_trace) and puts
what the step's time went to next to the prediction. Name those of several ranks: how long
a collective waits for other ranks is known only if their traces are.

The first line judges: whether the step lies in the interval of the prediction, is slow
or fast, or cannot be. Where the log is of another network, batch or length of samples,
there is no verdict, and the line says so. Below it are assumptions that would explain
the difference, each with the step that it gives, and what single changes would give: the
measured step times the ratio of two predictions. Last comes the fastest plan that the
program offers for the same devices, and if files were named that start Megatron-LM,
transformers' Trainer or DeepSpeed, what to change in them, as patch(1) reads it: all
other lines stay. --emit FORMAT (megatron, accelerate, deepspeed) writes the changed file
to -o. If several files change, a patch of them goes there, with .patch after its name. -
is stdout, and the answer goes to stderr. Where a log or CONFIG was named alone, megatron
and deepspeed write a file of their own (psim export).`

func newExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain LOG|SCRIPT|CONFIG…",
		Short: "say whether a measured step is slow, and what would explain it",
		Long:  explainManual,
		Example: `  psim explain train.log --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr
  psim explain llama3-70b --measured 12.3s
  psim explain ddp.toml --profile traces --measured 0.1s
  psim explain finetune.sh accelerate.yaml config.json --device h100-80gb-sxm --network ib-ndr --measured 12s
  psim explain run.sh --log train.log --device h100-80gb-sxm --network ib-edr --emit megatron -o b.sh`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("explain takes a log, a launch script or a CONFIG, not nothing\n" +
					"see \"psim explain --help\"")
			}
			return nil
		},
		RunE: f.run,
	}
	f.registerInput(cmd.Flags())
	f.targetFlags.register(cmd)
	f.registerDevices(cmd.Flags())
	cmd.Flags().StringArrayVar(&f.arguments, "arg", nil, "an argument of the script, $1 first; may be repeated")
	cmd.Flags().StringVar(&f.log, "log", "", "the log of the run, for a SCRIPT or a CONFIG")
	cmd.Flags().StringVar(&f.measured, "measured", "", "the measured step, such as 12.3s, in place of a log")
	cmd.Flags().StringArrayVar(&f.profiles, "profile", nil,
		"a trace of PyTorch's profiler, or a folder of them; may be repeated, once for each rank")
	cmd.Flags().StringVar(&f.emit, "emit", "", "write the better plan to -o: megatron, accelerate, deepspeed")
	cmd.Flags().VarP((*pathValue)(&f.out), "out", "o", "file to write the better plan to")
	registerOverwrite(cmd.Flags(), &f.overwrite)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the verdict and what explains it as one JSON object")
	return cmd
}

func (f *explainFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(cmd.Flags()); err != nil {
		return err
	}
	ctx, std := cmd.Context(), streamsOf(cmd)
	if err := f.checkEmit(); err != nil {
		return err
	}
	var err error
	if f.profiled, err = f.readProfiles(ctx, std.err); err != nil {
		return err
	}
	c, steps, err := f.load(ctx, args, std.err)
	if err != nil {
		return err
	}
	measured, err := f.step(steps)
	if err != nil {
		return err
	}
	if err := f.checkPatch(); err != nil {
		return err
	}
	p, err := lib.Predict(ctx, c)
	if err != nil {
		return err
	}
	if err := p.AddUnsaid(ctx); err != nil {
		return err
	}
	f.messages, f.answers = std.err, std.out
	held, err := f.hold(ctx, p, measured, steps)
	if err != nil {
		return err
	}
	script, err := f.better(ctx, p, &held)
	if err != nil {
		return err
	}
	unwritten := f.write(ctx, script, &held) // which is said after what was found
	return errors.Join(f.answer(std, held, p.Config.Train.Precision), unwritten)
}

// answer prints the judgment: to stderr where the script of the better plan, alone, goes to stdout.
func (f *explainFlags) answer(std streams, held judged.Judgment, precision string) (err error) {
	to := std.out
	if f.emit != "" && f.out == "-" {
		to = std.err
	}
	if f.json {
		err = files.WriteJSON(to, held)
	} else {
		err = reports.WriteJudgment(to, held, precision)
	}
	if err != nil || held.Written == "" {
		return err
	}
	how := ""
	if f.patched {
		how = "; patch -p0 applies it to the files"
	}
	_, err = fmt.Fprintf(std.err, "wrote %s%s\n", visible(held.Written), how)
	return err
}

// hold judges the measured step, unless the log, if there is one, is of other work than the prediction.
func (f *explainFlags) hold(
	ctx context.Context, p *lib.Prediction, measured float64, steps *launch.LoggedSteps,
) (held judged.Judgment, err error) {
	if steps == nil {
		return f.judge(ctx, p, measured)
	}
	if other := steps.OtherWork(); len(other) > 0 {
		held = judged.Judgment{
			Verdict: judged.Incomparable, Measured: measured, Predicted: p.Result.StepTime, OtherWork: other,
			Missing: p.Result.IntervalMissing,
		}
	} else if held, err = f.judge(ctx, p, measured); err != nil {
		return held, err
	}
	held.OtherPlan, held.Misread = steps.OtherPlan(), steps.Misreadings()
	held.Lost, held.Memory = steps.Lost, advise.CompareMemory(p, steps.Allocated, steps.Reserved)
	return held, nil
}

// judge holds the measured step against its prediction, and what its time went to against that of the prediction.
func (f *explainFlags) judge(ctx context.Context, p *lib.Prediction, measured float64) (judged.Judgment, error) {
	progress := newProgress(f.messages, f.quiet)
	defer progress.clear()
	var profile *judged.Profiled
	var classes []judged.ClassTime
	if f.profiled != nil {
		var err error
		if profile, classes, err = advise.CompareProfile(p, f.profiled); err != nil {
			return judged.Judgment{}, err
		}
	}
	held, err := advise.Judge(ctx, p, measured, func(number, of int, set []string) {
		progress.showf("change %d of %d: %v", number, of, set)
	})
	held.Profile, held.ByClass = profile, classes
	held.Changes = slices.DeleteFunc(held.Changes, f.cannotTell)
	return held, err
}

// cannotTell reports whether a change has a value that the user's files cannot say.
func (f *explainFlags) cannotTell(g judged.Gain) bool {
	return slices.ContainsFunc(g.Set, func(set string) bool {
		key, value, _ := strings.Cut(set, "=")
		values, limited := f.only[key]
		return limited && !slices.Contains(values, value)
	})
}

// checkEmit refuses an unknown format, and a file that cannot be written.
func (f *explainFlags) checkEmit() error {
	switch {
	case f.emit == "" && f.out == "":
		return nil
	case f.emit == "":
		return fmt.Errorf("--out is for the better plan: --emit says how it is written: %s",
			strings.Join(emitFormats, ", "))
	case !slices.Contains(emitFormats, f.emit):
		return fmt.Errorf("--emit %s: unknown format; psim explain writes %s", f.emit,
			strings.Join(emitFormats, ", "))
	case f.out == "":
		return errors.New("--out is missing: name the script to write, as in -o better.sh")
	case f.out == "-":
		return nil
	}
	return f.emitted().check()
}

// emitted names the file of the better plan.
func (f *explainFlags) emitted() namedFile { return namedFile{"out", f.out, "explain", f.overwrite} }

// better finds the fastest plan, and what to change in the script for it. It returns the script of that plan, with
// --emit.
func (f *explainFlags) better(ctx context.Context, p *lib.Prediction, held *judged.Judgment) ([]byte, error) {
	c, err := advise.Better(ctx, p, held, f.only)
	if err != nil || c == nil {
		return nil, err
	}
	patch, err := f.patch(ctx, [2]*configs.Config{p.Config, c})
	if other := f.cutAsBefore(ctx, p, held, err); other != nil {
		c = other
		patch, err = f.patch(ctx, [2]*configs.Config{p.Config, c})
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		held.Patch, held.PatchedLines = patch.Text, patch.Lines
		named := strings.HasSuffix(f.out, patchEnding)
		if len(patch.Files) > 1 || named { // several files change together
			if f.patched = true; f.out != "-" && !named {
				f.out += patchEnding
			}
			return []byte(patch.Text), nil
		}
		return patch.Files[0].Data, nil
	case !errors.Is(err, launch.ErrNoScript):
		held.Unpatched = err.Error()
	}
	var script bytes.Buffer
	if f.emit != "" {
		err = f.export(ctx, &script, c, held.Unpatched)
		return script.Bytes(), err
	}
	return nil, nil
}

// write writes the script of the better plan, with --emit.
func (f *explainFlags) write(ctx context.Context, script []byte, held *judged.Judgment) error {
	switch {
	case f.emit == "":
		return nil
	case held.Better == nil:
		return failed(errors.New("--emit: there is no better plan to write"))
	case f.out == "-":
		_, err := f.answers.Write(script)
		return err
	}
	err := f.emitted().write(ctx, func(w io.Writer) error { _, err := w.Write(script); return err })
	if err != nil {
		return failed(err)
	}
	held.Written = f.out
	return nil
}

// The bounds of a step that a log may have, in seconds.
const leastMeasured, mostMeasured = 1e-9, 1e6

// step returns the measured step in seconds.
func (f *explainFlags) step(steps *launch.LoggedSteps) (float64, error) {
	switch {
	case f.measured != "":
		d, err := units.ParseDuration(f.measured)
		if err != nil || d <= 0 {
			return 0, fmt.Errorf("--measured %s: must be a time above 0 with its unit, such as 12.3s",
				f.measured)
		}
		return time.Duration(d).Seconds(), nil
	case steps != nil && steps.StepTime > 0 && !(steps.StepTime >= leastMeasured && steps.StepTime <= mostMeasured):
		return 0, fmt.Errorf("a step of %.3g s by the log: no step is so short or so long; --measured 12.3s says how "+
			"long it takes", steps.StepTime)
	case steps != nil && steps.StepTime > 0:
		return steps.StepTime, nil
	case f.profiled != nil:
		return f.profiled.Times.Sum().Seconds(), nil
	}
	return 0, errors.New("no measured step is known: name the log of the run (--log), a trace of PyTorch's " +
		"profiler (--profile), or --measured 12.3s")
}

// logSteps reads a log, and what it says of its steps.
func logSteps(name string) ([]byte, *launch.LoggedSteps, error) {
	data, err := readInput(name)
	if err == nil {
		err = launch.OneRun(launch.Input{Label: name, Data: data})
	}
	if err != nil {
		return nil, nil, err
	}
	steps := launch.Steps(data)
	if steps != nil {
		return data, steps, nil
	}
	problem := "has no line that says how long an iteration took"
	if lacks := launch.Lacks(data); lacks != "" {
		problem += "; " + lacks
	}
	return nil, nil, fmt.Errorf("%s: %s", name, problem)
}

// load reads the configuration, and the steps of a log if there is one.
func (f *explainFlags) load(ctx context.Context, args []string, stderr io.Writer) (
	*configs.Config, *launch.LoggedSteps, error,
) {
	if f.log != "" {
		args = append(args[:len(args):len(args)], f.log)
	}
	if first, err := readInput(args[0]); err == nil && (launch.Readable(args[0], first) ||
		len(args) > 1 && f.log == "" && launch.IsNetwork(first)) {
		understood, err := f.read(args)
		if err != nil {
			return nil, nil, err
		}
		f.program, f.only = understood.Format, understood.Only
		c, err := f.imported(ctx, understood, args)
		if err == nil && !f.quiet {
			err = understood.WriteText(stderr)
		}
		return c, understood.Measured, err
	}
	if len(args) > 1 && f.log == "" {
		return nil, nil, fmt.Errorf("%s: is not a log or a script of Megatron-LM; name it alone, and "+
			"the log with --log", args[0])
	}
	c, err := f.targetFlags.load(ctx, args[0], f.sets)
	if err != nil || f.log == "" {
		return c, nil, err
	}
	data, steps, err := logSteps(f.log)
	if err != nil {
		return nil, nil, fmt.Errorf("--log %w", err)
	}
	e, err := c.BuildFor(ctx, configs.BuildOptions{Folded: true, Brief: true})
	if err != nil {
		return nil, nil, err
	}
	addPrinted(ctx, launch.Input{Label: f.log, Data: data}, steps, settingsOf(c))
	if steps.Complete(loggedPlan(c, e)); !f.quiet {
		err = steps.WriteText(stderr)
	}
	return c, steps, err
}

// imported completes what was imported, and loads it.
func (f *explainFlags) imported(
	ctx context.Context, understood *launch.Import, names []string,
) (*configs.Config, error) {
	text, err := f.complete(ctx, understood, names)
	if err != nil {
		return nil, err
	}
	if f.target.Device == "" && !strings.Contains(string(text), "[machine]") {
		traced := ""
		if f.profiled != nil && f.profiled.Device != "" {
			traced = " (the trace has " + f.profiled.Device + ")"
		}
		return nil, fmt.Errorf("--device is missing: no log or script names its device%s; "+
			"--device D (psim list devices), --devices-per-node N and --network L say where it ran", traced)
	}
	return configs.Parse("the configuration of "+names[0], bytes.TrimSpace(text))
}
