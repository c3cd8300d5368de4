package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"psim/exec/validation"
)

// Defaults of --executed: executedSteps steps are measured, an experiment is run executedRuns times,
// and every task is timed executedRepeats times before.
const (
	executedSteps   = 5
	executedRuns    = 3
	executedRepeats = 6
)

// executedFlags lists the flags that apply only to --executed.
var executedFlags = []string{"gpus", "backend", "steps", "runs", "resume", "oversubscribe", "set"}

func (f *validateFlags) registerExecuted(flags *pflag.FlagSet) {
	f.execFlags.register(pflag.NewFlagSet("", pflag.ContinueOnError)) // sets the defaults of psim exec
	f.Measure.Repeats = executedRepeats
	flags.IntVar(&f.gpus, "gpus", 2, "number of devices of --executed")
	flags.StringVar(&f.Measure.Devices.Backend, "backend", "go",
		"what computes in --executed: go, xla or xla:/absolute/path/of/plugin.so")
	flags.IntVar(&f.Measure.Train.Steps, "steps", executedSteps, "number of steps that --executed measures")
	flags.IntVar(&f.Tries, "runs", executedRuns,
		"how often --executed runs an experiment, 1 to 3; the run of the median error counts")
	flags.StringVar(&f.resume, "resume", "",
		"file in which --executed keeps the experiments that it has run, to skip them when it is run again")
	flags.BoolVar(&f.Measure.Devices.Oversubscribe, "oversubscribe", false,
		"let --executed use more devices than cores")
	flags.StringArrayVar(&f.sets, "set", nil, "change a setting of all experiments of --executed")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
}

// changes lists the flags of --executed that differ from their defaults.
func (f validateFlags) changes() (text string) {
	if f.gpus != 2 {
		text += fmt.Sprintf(" --gpus %d", f.gpus)
	}
	if backend := f.Measure.Devices.Backend; backend != "go" {
		text += " --backend " + backend
	}
	if f.Measure.Train.Steps != executedSteps {
		text += fmt.Sprintf(" --steps %d", f.Measure.Train.Steps)
	}
	if f.Tries != executedRuns {
		text += fmt.Sprintf(" --runs %d", f.Tries)
	}
	for _, set := range f.sets {
		text += " --set " + set
	}
	return text
}

func (f validateFlags) execute(ctx context.Context, names []string, std streams) error {
	if f.gpus == 0 {
		return errors.New("--gpus 0: there must be at least 1 device")
	}
	if f.Tries < 1 || f.Tries > executedRuns {
		return fmt.Errorf("--runs %d: must be 1 to %d", f.Tries, executedRuns)
	}
	if err := f.validate(); err != nil {
		return err
	}
	var err error
	apart := false
	if f.Measure.Devices, apart, err = f.Measure.Devices.Settle(); err != nil {
		return err
	}
	p := newProgress(std.err, f.quiet)
	o := validation.Options{Apart: apart,
		Session: f.Options, Devices: f.gpus, Runs: f.Tries,
		Names: names, Sets: f.sets, Flags: f.changes(), Journal: f.resume,
	}
	o.Session.Measure.Stage, o.Session.Tries = p.show, 1
	o.Warn = func(warning string) { fmt.Fprintln(std.err, "psim:", visible(warning)) }
	r, err := validation.Run(ctx, o)
	p.clear()
	if r == nil || len(r.Rows) == 0 {
		return err
	}
	return errors.Join(f.print(std.out, r, r.WriteMarkdown, r.WriteText), err)
}
