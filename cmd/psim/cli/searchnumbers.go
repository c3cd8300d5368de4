package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"psim/reports"
	"psim/results/rankings"
)

// searchNumbers finds the best plan for each of several numbers of devices.
func (f searchFlags) searchNumbers(cmd *cobra.Command, path string) error {
	f.clearDash()
	var list []searchFlags
	for _, n := range f.numbers {
		one := f
		one.devices, one.target.Devices = n, n
		if f.out != "" {
			one.out = filepath.Join(f.out, fmt.Sprintf("devices-%d", n))
		}
		if _, err := one.folder(rankings.Shard{}, []string{path}); err != nil {
			return err
		}
		list = append(list, one)
	}
	std := streamsOf(cmd)
	var found rankings.PlanSearches
	var failed error
	for _, one := range list {
		answer, err := one.findPlans(cmd, path)
		if answer == nil {
			return err // of the configuration or the flags
		}
		found.Searches = append(found.Searches, answer.PlanRanking)
		if failed = errors.Join(failed, err); cmd.Context().Err() != nil {
			break
		}
	}
	if err := errors.Join(f.printSearches(found, std), failed); err != nil {
		return err
	}
	for _, one := range found.Searches {
		if len(one.Plans) > 0 {
			return nil
		}
	}
	return f.nothingFitsError()
}

// printSearches prints the searches in the form that the flags ask for.
func (f searchFlags) printSearches(found rankings.PlanSearches, std streams) error {
	switch {
	case f.json:
		return found.WriteJSON(std.out)
	case f.csv:
		return reports.WritePlansCSV(std.out, found.Searches)
	}
	for _, one := range found.Searches {
		if !f.quiet && one.Space > 0 {
			fmt.Fprintf(std.err, "psim: %d devices, %s\n", one.Devices, reports.CountPlans(one))
		}
	}
	return reports.WritePlanSearches(std.out, found, f.settings == "all")
}
