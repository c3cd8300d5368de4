package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	lib "psim"
	"psim/exec/data"
	"psim/internal/units"
	"psim/reports"
	"psim/results"
)

// registerEpochs declares the flags that concern a data set.
func (f *runFlags) registerEpochs(flags *pflag.FlagSet) {
	f.registerShards(flags)
	flags.BoolVar(&f.strided, "strided", false,
		"with --shards: replica r has the samples r, r+n, … instead of shuffled ones")
	flags.IntVar(&f.epochs, "epochs", 1,
		"number of passes over the data set, of data.samples samples, to predict the time of")
}

func (f *runFlags) registerShards(flags *pflag.FlagSet) {
	flags.BoolVar(&f.shards, "shards", false,
		"also print which samples every replica trains on; --json and --csv have all of them")
}

// mostEpochs is more than anybody trains, and few enough for times of years.
const mostEpochs = 1_000_000

// addEpochs adds the time of --epochs and the samples of --shards to a prediction.
func (f runFlags) addEpochs(p *lib.Prediction) error {
	switch {
	case f.epochs < 1:
		return fmt.Errorf("--epochs %d: must be at least 1", f.epochs)
	case f.epochs > mostEpochs:
		return fmt.Errorf("--epochs %d: must be at most %s", f.epochs, units.FormatCount(mostEpochs))
	case p.Result.Epochs != nil:
		p.Result.RepeatEpochs(f.epochs)
	case f.epochs > 1:
		return fmt.Errorf("--epochs %d: the time of an epoch depends on the size of the data set; "+
			"set it, as in --set data.samples=5000", f.epochs)
	}
	if !f.shards {
		return nil
	}
	if p.Experiment.DataSet == 0 {
		return errors.New("--shards: the samples of a replica depend on the size of the data set; " +
			"set it, as in --set data.samples=5000")
	}
	if p.Experiment.DataSet > mostListed {
		return fmt.Errorf("--shards: lists at most %s samples, and the data set has %s; "+
			"set fewer, as in --set data.samples=5000",
			units.FormatCount(mostListed), units.FormatCount(p.Experiment.DataSet))
	}
	each := slices.Repeat([]int64{1}, p.Result.DataParallel)
	if w := p.Experiment.Staged; w != nil {
		each = w.PerReplica()
	}
	shards, err := data.Deal(int(p.Experiment.DataSet), each, f.strided)
	p.Result.Shards = results.NewReplicaSamples(shards)
	return flagged("shards:", err)
}

// mostListed bounds the samples of --shards, which are shuffled and listed one by one.
const mostListed = 10_000_000

// printShards prints the samples of every replica if --shards is given.
func (f runFlags) printShards(r results.Result, stdout io.Writer) error {
	if !f.shards {
		return nil
	}
	fmt.Fprintln(stdout)
	return reports.WriteShards(stdout, r.Shards)
}
