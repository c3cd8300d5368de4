package cli

import (
	"io"

	"psim/internal/files"
	"psim/schedules/order"
)

// An action of a clock cycle, in JSON.
type action struct {
	Kind       string `json:"kind"`
	Microbatch int32  `json:"microbatch"`
	Stage      int32  `json:"stage"`
	Rank       int    `json:"rank"`
}

// writeClock prints the clock cycles of the order.
func (w namedOrder) writeClock(out io.Writer, format string) error {
	cycles, err := w.order.Cycles()
	if err != nil {
		return err
	}
	switch format {
	case "csv":
		return order.WriteCyclesCSV(out, cycles)
	case "text":
		return order.WriteCycles(out, cycles)
	}
	list := make([][]action, len(cycles))
	for i, c := range cycles {
		for _, p := range c {
			list[i] = append(list[i], action{p.Kind.String(), p.Microbatch, p.Stage, p.Rank})
		}
	}
	return files.WriteJSON(out, map[string]any{
		"schedule": w.Name, "stages": w.shape.Ranks, "virtual_stages": w.shape.Virtual,
		"microbatches": w.shape.Microbatches, "cycles": list,
	})
}
