package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"psim/exec/validation"
)

// executedSteps many steps are measured unless --steps says otherwise, and an experiment is run
// executedRuns times unless --runs does. Tasks are timed executedRepeats times before.
const (
	executedSteps   = 5
	executedRuns    = 3
	executedRepeats = 6
)

// executedFlags change what --executed runs, and nothing without it.
var executedFlags = []string{"gpus", "steps", "runs", "resume", "oversubscribe", "set"}

func (f *execFlags) registerExecuted(cmd *cobra.Command, resume *string) {
	f.register(&cobra.Command{}) // for the defaults
	f.Measure.Repeats = executedRepeats
	flags := cmd.Flags()
	flags.IntVar(&f.gpus, "gpus", 2, "number of devices of --executed")
	flags.IntVar(&f.Measure.Train.Steps, "steps", executedSteps, "number of steps that --executed measures")
	flags.IntVar(&f.Tries, "runs", executedRuns, "how often --executed runs an experiment, 1 to 3; the run of the median error counts")
	flags.StringVar(resume, "resume", "", "file in which --executed keeps what it has run, and does not run again")
	flags.BoolVar(&f.Measure.Devices.Oversubscribe, "oversubscribe", false, "let --executed use more devices than cores")
	flags.StringArrayVar(&f.sets, "set", nil, "change a setting of all experiments of --executed")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
}

// changes lists the flags of --executed that were given other values.
func (f execFlags) changes() (text string) {
	if f.gpus != 2 {
		text += fmt.Sprintf(" --gpus %d", f.gpus)
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

func (f validateFlags) execute(ctx context.Context, names []string, stdout, stderr io.Writer) error {
	if f.gpus == 0 {
		return errors.New("--gpus 0: there must be at least 1 device")
	}
	if f.Tries < 1 || f.Tries > executedRuns {
		return fmt.Errorf("--runs %d: must be 1 to %d", f.Tries, executedRuns)
	}
	if err := f.validate(); err != nil {
		return err
	}
	p := newProgress(stderr, f.quiet)
	o := validation.Options{Session: f.Options, Devices: f.gpus, Runs: f.Tries, Names: names, Sets: f.sets, Flags: f.changes(), Journal: f.resume}
	o.Session.Measure.Stage, o.Session.Tries = p.tell, 1
	r, err := validation.Run(ctx, o)
	p.clear()
	if r == nil || len(r.Rows) == 0 {
		return err
	}
	return errors.Join(f.print(stdout, r, r.WriteMarkdown, r.WriteText), err)
}
