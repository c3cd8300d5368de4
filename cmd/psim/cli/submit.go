package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psim/cmd/psim/slurm"
	"psim/configs"
)

// submitFlags holds the flags of a verb that can run as a job array.
type submitFlags struct {
	engine          string
	shards          int
	partition, time string
	dry             bool
}

// submitFlagNames lists the flags that need --submit.
var submitFlagNames = []string{"shards", "partition", "time", "dry-run"}

// notOfShards lists the flags that the shards of a job array do not get.
var notOfShards = append([]string{"submit", "out", "overwrite", "settings", "quiet", "verbose"}, submitFlagNames...)

// mostShards bounds the shards of a job array: Slurm has an array for every 1001 of them, by default.
const mostShards = 10_000

func (f *submitFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.engine, "submit", "", "run as a job array of this engine, and merge the shards in --out: slurm")
	flags.IntVar(&f.shards, "shards", 16, "with --submit: the number of shards")
	flags.StringVar(&f.partition, "partition", "", "with --submit: the partition of the jobs (default: Slurm's)")
	flags.StringVar(&f.time, "time", "", "with --submit: the time limit of a job, as sbatch reads it, such as 2:00:00")
	flags.BoolVar(&f.dry, "dry-run", false, "with --submit: print the scripts and commands, and write nothing")
}

// slurmTime finds the forms of a time limit that sbatch reads, and slurmName those of a partition.
var (
	slurmTime = regexp.MustCompile(`^(\d+-)?\d+(:\d\d){0,2}$`)
	slurmName = regexp.MustCompile(`^[A-Za-z0-9_.,-]+$`)
)

// check refuses wrong flags, and without --submit those that need it. out is --out.
func (f submitFlags) check(flags *pflag.FlagSet, out string) error {
	if f.engine == "" && !flags.Changed("submit") {
		for _, name := range submitFlagNames {
			if flags.Changed(name) {
				return fmt.Errorf("--%s: needs --submit slurm", name)
			}
		}
		return nil
	}
	switch {
	case f.engine != "slurm":
		return fmt.Errorf("--submit %q: must be slurm; for other schedulers --shard I/N makes a part, "+
			"and psim merge joins them", f.engine)
	case f.shards < 1 || f.shards > mostShards:
		return fmt.Errorf("--shards %d: must be from 1 to %d", f.shards, mostShards)
	case flags.Changed("partition") && !slurmName.MatchString(f.partition):
		return fmt.Errorf("--partition %q: must be a name of letters, digits, dots, - and _", f.partition)
	case flags.Changed("time") && !slurmTime.MatchString(f.time):
		return fmt.Errorf("--time %q: must be MINUTES, H:MM:SS, D-H or D-HH:MM:SS, such as 2:00:00", f.time)
	case flags.Changed("shard"):
		return errors.New("--shard: --submit numbers the shards itself; leave one of the two out")
	case flags.Changed("json") || flags.Changed("csv"):
		return errors.New("--json and --csv: the job that merges prints the answer; " +
			"afterwards psim merge DIR/parts prints it in these forms")
	case out == "" || out == "-":
		return errors.New("--out is missing: --submit needs a folder that all nodes see")
	}
	return nil
}

// submit submits a command, which was checked, or prints its scripts.
func (f submitFlags) submit(cmd *cobra.Command, config string, c *configs.Config) error {
	s, err := f.submission(cmd, config, c)
	if err != nil {
		return err
	}
	ctx, std := cmd.Context(), streamsOf(cmd)
	if f.dry {
		most, _ := slurm.MaxArraySize(ctx) // Slurm need not be here
		_, err = io.WriteString(std.out, s.Scripts(most))
		return err
	}
	done, err := s.Submit(ctx)
	if done != "" {
		fmt.Fprintf(std.out, "%s; psim status %s shows how far they are\n", done, slurm.Quoted(flagOf(cmd, "out")))
	}
	return submitError(err)
}

// submitError makes errors of a submission those of its flags: Slurm refuses what it is asked for.
func submitError(err error) error {
	switch {
	case errors.As(err, new(slurm.SaidError)), errors.Is(err, slurm.ErrNoSlurm):
		return fmt.Errorf("--submit slurm: %w", err)
	case errors.As(err, new(slurm.OtherError)):
		return fmt.Errorf("--out %w", err)
	}
	return failed(err)
}

// flagOf returns the value of a flag.
func flagOf(cmd *cobra.Command, name string) string { return cmd.Flags().Lookup(name).Value.String() }

// submission describes the command.
func (f submitFlags) submission(cmd *cobra.Command, config string, c *configs.Config) (*slurm.Submission, error) {
	program, err := os.Executable()
	work, noWork := os.Getwd()
	out, noOut := filepath.Abs(flagOf(cmd, "out"))
	if err := errors.Join(err, noWork, noOut); err != nil {
		return nil, failure{err}
	}
	s := &slurm.Submission{
		Program: program, Work: work, Folder: out, Verb: cmd.Name(), Args: []string{config}, Merge: []string{},
		Version: versionLine(), Shards: f.shards,
		Partition: f.partition, Time: f.time, Configuration: c.Fingerprint(),
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			given := "--" + flag.Name + "=" + value
			if !slices.Contains(notOfShards, flag.Name) {
				s.Args = append(s.Args, given)
			}
			if slices.Contains([]string{"overwrite", "settings", "map"}, flag.Name) {
				s.Merge = append(s.Merge, given)
			}
		}
	})
	return s, nil
}
