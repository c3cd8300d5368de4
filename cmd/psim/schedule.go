package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"psim/internal/nearest"
	"psim/schedules"
)

func newSchedule() *cobra.Command {
	var shape schedules.Shape
	var format string
	cmd := &cobra.Command{
		Use:   "schedule NAME",
		Short: "print a schedule's order, without any cost",
		Long: `schedule prints the compute order of every rank. An action is
<stage><F, B, I or W><microbatch>: 2F0 is the forward of stage 2, microbatch 0.
The csv format is PyTorch's compute-only schedule notation, a row per rank.`,
		Example: `  psim schedule 1f1b --stages 4 --microbatches 8
  psim schedule gpipe --stages 2 --microbatches 4 --format csv`,
		ValidArgs: schedules.Names(),
		Args:      exactly(1, "one NAME of a schedule ("+strings.Join(schedules.Names(), ", ")+")"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := schedules.Find(args[0])
			if err != nil {
				return unknownOrder(args[0], err)
			}
			if err := checkOrder(shape, format); err != nil {
				return err
			}
			order, err := s.Order(shape, nil)
			if err != nil {
				return flagError(err)
			}
			return writeOrder(cmd.OutOrStdout(), format, s.Name, shape, order)
		},
	}
	cmd.Flags().IntVar(&shape.Ranks, "stages", 4, "pipeline ranks")
	cmd.Flags().IntVar(&shape.Microbatches, "microbatches", 8, "microbatches")
	cmd.Flags().IntVar(&shape.Virtual, "virtual", 1, "stages per rank")
	cmd.Flags().StringVar(&format, "format", "text", "text, csv or json")
	return cmd
}

// checkOrder refuses what need not be tried.
func checkOrder(shape schedules.Shape, format string) error {
	switch {
	case !slices.Contains([]string{"text", "csv", "json"}, format):
		return fmt.Errorf("--format %s: legal are text, csv and json", format)
	case shape.Virtual < 1:
		return fmt.Errorf("--virtual %d: there must be at least 1", shape.Virtual)
	}
	return checkSize(2 * float64(shape.Ranks) * float64(shape.Microbatches))
}

// unknownOrder is the error for a name that has no compute order.
func unknownOrder(name string, err error) error {
	if name == "auto" {
		return errors.New("auto has no order before tasks have times: psim run CONFIG --set schedule.name=auto finds one")
	}
	for _, c := range schedules.Collectives() {
		if c.Name == name {
			return fmt.Errorf("%s is a collective, which has no compute order; psim run %s simulates one", name, schedules.RingAllReduce)
		}
	}
	return fmt.Errorf("%w%s", err, nearest.Suggest(name, schedules.Names()))
}

// flagError rewords an error about a setting as one about the flag.
func flagError(err error) error {
	flags := strings.NewReplacer("remove virtual_stages", "remove --virtual", "virtual_stages", "virtual")
	return fmt.Errorf("--%s", strings.Replace(flags.Replace(err.Error()), " = ", " ", 1))
}

// writeOrder prints an order in one of the three formats.
func writeOrder(w io.Writer, format, name string, shape schedules.Shape, order schedules.Order) error {
	switch format {
	case "csv":
		return order.WriteCSV(w)
	case "json":
		return writeOrderJSON(w, name, shape, order)
	}
	width := len(fmt.Sprint(len(order) - 1))
	for r, line := range strings.Split(strings.TrimSuffix(order.String(), "\n"), "\n") {
		if _, err := fmt.Fprintf(w, "rank %*d: %s\n", width, r, line); err != nil {
			return err
		}
	}
	return nil
}

// writeOrderJSON prints an order and its size as one JSON object.
func writeOrderJSON(w io.Writer, name string, shape schedules.Shape, order schedules.Order) error {
	ranks := make([][]string, len(order))
	for r, actions := range order {
		ranks[r] = make([]string, len(actions))
		for i, a := range actions {
			ranks[r][i] = a.String()
		}
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{
		"schedule": name, "stages": shape.Ranks, "virtual_stages": shape.Virtual,
		"microbatches": shape.Microbatches, "order": ranks,
	})
}
