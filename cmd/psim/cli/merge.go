package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"psim/plans"
	"psim/reports"
	"psim/reports/figures"
	"psim/results/rankings"
	"psim/sweep"
)

// newMerge joins what shards have written.
func newMerge() *cobra.Command {
	var f outputFlags
	var dimensions []string
	cmd := &cobra.Command{
		Use:   "merge DIR…",
		Short: "join the parts of a sweep, or of a search",
		Long: `merge joins sweeps of one configuration that were computed apart: the shards in a
DIR, which may be on different machines, or sweeps over other values of the same
settings. It writes the files that one sweep would have written, to the byte.
Points that stand in several parts must agree, and all have to be there.

It joins the shards of psim search --devices in the same way: the best plans, and the
files, are those of one search.`,
		Example: `  psim merge out/parts --out out/whole
  psim merge out/parts/shard-1-of-2 out/parts/shard-2-of-2 --out out/whole`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("merge takes the folders of one or more sweeps or searches, not nothing\nsee \"psim merge --help\"")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if plans.Holds(args) {
				return mergePlans(cmd, args, f, dimensions)
			}
			return runMerge(cmd, args, f)
		},
	}
	f.registerOutput(cmd.Flags(), "print all results as one JSON object and nothing else", "print one row per point as CSV and nothing else", "folder to write to")
	cmd.Flags().StringSliceVar(&dimensions, "map", nil, "of searches: two dimensions of map.png, as psim search has it")
	cmd.Flags().BoolVar(&f.quiet, "quiet", false, "do not say what was written")
	return cmd
}

func runMerge(cmd *cobra.Command, folders []string, f outputFlags) error {
	f.noDash()
	if err := f.exclusive(); err != nil {
		return err
	}
	s, err := sweep.Merge(folders...)
	if missing := new(rankings.MissingPoints); errors.As(err, &missing) {
		return failure{err}
	}
	if err != nil {
		return err
	}
	var unsaved error
	if f.out != "" {
		if err := f.checkOut(reports.SweepFolder(f.out)); err != nil {
			return err
		}
		var names []string
		if names, unsaved = sweep.Save(cmd.Context(), s, f.out); unsaved == nil {
			f.wrote(cmd.ErrOrStderr(), strings.Join(names, ", "), f.out)
		}
	}
	return errors.Join(f.printSweep(s, cmd.OutOrStdout()), failed(unsaved))
}

// mergePlans joins the shards of a search over plans.
func mergePlans(cmd *cobra.Command, folders []string, f outputFlags, dimensions []string) error {
	f.noDash()
	if err := flagged("map", figures.CheckDimensions(dimensions)); err != nil {
		return err
	}
	if f.csv {
		return errors.New("--csv: plans have no CSV; take --json, or points.csv of --out")
	}
	s, err := plans.Merge(folders...)
	if missing := new(rankings.MissingPoints); errors.As(err, &missing) {
		return failure{err}
	}
	if err != nil {
		return err
	}
	found, err := s.Ranking()
	if err != nil {
		return err
	}
	var unsaved error
	if f.out != "" {
		if err := f.checkOut(reports.PlansFolder(f.out)); err != nil {
			return err
		}
		var names []string
		if names, unsaved = plans.Save(cmd.Context(), s, f.out, dimensions); unsaved == nil {
			f.wrote(cmd.ErrOrStderr(), strings.Join(names, ", "), f.out)
		}
	}
	err = errors.Join(printPlans(found, f, cmd), failed(unsaved))
	if err == nil && len(found.Plans) == 0 {
		return f.noPlan(found)
	}
	return err
}
