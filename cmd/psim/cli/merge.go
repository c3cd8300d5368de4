package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"psim/internal/files"
	"psim/plans"
	"psim/reports"
	"psim/reports/figures"
	"psim/results/rankings"
	"psim/sweep"
)

type mergeFlags struct {
	outputFlags
	dimensions []string
	settings   string
}

const mergeManual = `merge joins sweeps of one configuration that were computed separately: the shards in a
DIR, which may be on different machines, or sweeps over other values of the same
settings. It writes the files that one sweep would have written, byte for byte.
Points that are in several parts must agree, and no point may be missing.

It joins the shards of psim search --devices in the same way: the best plans, which it
predicts, and the files are those of one search.`

func newMerge() *cobra.Command {
	var f mergeFlags
	cmd := &cobra.Command{
		Use:   "merge DIR…",
		Short: "join the parts of a sweep, or of a search",
		Long:  mergeManual,
		Example: `  psim merge out/parts --out out/whole
  psim merge out/parts/shard-1-of-2 out/parts/shard-2-of-2 --out out/whole`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("merge takes the folders of one or more sweeps or searches, not nothing\n" +
					"see \"psim merge --help\"")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := "sweep"
			if plans.Holds(args) {
				kind = "search"
			}
			if err := f.checkInputs(kind, args); err != nil {
				return err
			}
			if kind == "search" {
				return f.mergePlans(cmd, args)
			}
			return f.mergeSweeps(cmd, args)
		},
	}
	f.registerOutput(cmd.Flags(), outputHelp{
		json: "print all results as one JSON object and nothing else",
		csv:  "print one row per point as CSV and nothing else",
		out:  "folder to write to",
	})
	cmd.Flags().StringSliceVar(&f.dimensions, "map", nil,
		"of searches: two dimensions of map.png (default: those of the shards, which know all of its squares)")
	registerSettings(cmd.Flags(), &f.settings, "of searches: ")
	cmd.Flags().BoolVar(&f.quiet, "quiet", false, "do not list the files that were written")
	return cmd
}

// checkInputs refuses a folder of --out that is one of the parts, which it would replace.
func (f mergeFlags) checkInputs(kind string, folders []string) error {
	parts, err := rankings.PartFolders(kind, folders)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if f.out != "-" && files.Same(part, f.out) {
			return fmt.Errorf("--out %s: is one of the inputs; name another folder", f.out)
		}
	}
	return nil
}

func (f mergeFlags) mergeSweeps(cmd *cobra.Command, folders []string) error {
	f.clearDash()
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
	std := streamsOf(cmd)
	var unsaved error
	if f.out != "" {
		to := f.to(reports.SweepFolder(f.out))
		if err := f.checkOut(to); err != nil {
			return err
		}
		var names []string
		if names, unsaved = sweep.Save(cmd.Context(), s, to); unsaved == nil {
			f.reportWritten(std.err, strings.Join(names, ", "), f.out)
		}
	}
	return errors.Join(f.printSweep(s, std), failed(unsaved))
}

// mergePlans joins the shards of a search over plans.
func (f mergeFlags) mergePlans(cmd *cobra.Command, folders []string) error {
	f.clearDash()
	if err := flagged("map", figures.CheckDimensions(f.dimensions)); err != nil {
		return err
	}
	if err := checkName("settings", f.settings, settingsValues); err != nil {
		return err
	}
	if f.csv {
		return errors.New("--csv: plans are not printed as CSV; use --json, or points.csv in the folder of --out")
	}
	s, err := plans.Merge(cmd.Context(), folders...)
	if missing := new(rankings.MissingPoints); errors.As(err, &missing) {
		return failure{err}
	}
	if err != nil {
		return err
	}
	ranking, err := s.Ranking()
	if err != nil {
		return err
	}
	std := streamsOf(cmd)
	var unsaved error
	if f.out != "" {
		to := f.to(reports.PlansFolder(f.out, len(s.Plans)))
		if err := f.checkOut(to); err != nil {
			return err
		}
		var names []string
		if names, unsaved = plans.Save(cmd.Context(), s, to, f.dimensions); unsaved == nil {
			f.reportPlans(std.err, names, false)
		}
	}
	err = errors.Join(f.printPlans(ranking, f.settings, std), failed(unsaved))
	if err == nil && len(ranking.Plans) == 0 {
		return f.noPlanError(ranking)
	}
	return err
}
