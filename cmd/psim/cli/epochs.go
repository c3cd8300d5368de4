package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	lib "psim"
	"psim/exec/data"
	"psim/reports"
	"psim/results"
)

// registerEpochs declares what a prediction can say of a data set.
func (f *runFlags) registerEpochs(flags *pflag.FlagSet) {
	f.registerShards(flags)
	flags.BoolVar(&f.strided, "strided", false, "with --shards: replica r has the samples r, r+n, … instead of shuffled ones")
	flags.IntVar(&f.epochs, "epochs", 1, "number of passes over the data set, of data.samples samples, to tell the time of")
}

func (f *runFlags) registerShards(flags *pflag.FlagSet) {
	flags.BoolVar(&f.shards, "shards", false, "also say which samples every replica trains on; --json and --csv have all of them")
}

// addEpochs adds what is asked for of the data set to a prediction.
func (f runFlags) addEpochs(p *lib.Prediction) error {
	switch {
	case f.epochs < 1:
		return fmt.Errorf("--epochs %d: must be at least 1", f.epochs)
	case p.Result.Epochs != nil:
		p.Result.RepeatEpochs(f.epochs)
	case f.epochs > 1:
		return fmt.Errorf("--epochs %d: how long an epoch is follows from the size of the data set; say it, as in --set data.samples=5000", f.epochs)
	}
	if !f.shards {
		return nil
	}
	if p.Config.Data.Samples == 0 {
		return errors.New("--shards: which samples a replica has follows from how many there are; say it, as in --set data.samples=5000")
	}
	each := slices.Repeat([]int64{1}, p.Result.DataParallel)
	if w := p.Experiment.Staged; w != nil {
		each = w.PerReplica()
	}
	shards, err := data.Deal(int(p.Config.Data.Samples), each, f.strided)
	p.Result.Shards = results.NewReplicaSamples(shards)
	return flagged("shards:", err)
}

// printShards prints the samples of every replica, where they are asked for.
func (f runFlags) printShards(r results.Result, stdout io.Writer) error {
	if !f.shards {
		return nil
	}
	fmt.Fprintln(stdout)
	return reports.WriteShards(stdout, r.Shards)
}
