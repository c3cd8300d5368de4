package picture

import (
	"time"

	"psim/results"
)

// LoadMemory reads the memory figure of a saved run.
func LoadMemory(path string) (MemoryFigure, error) {
	r, curves, err := results.LoadMemory(path)
	if err != nil {
		return MemoryFigure{}, err
	}
	return MemoryFigure{
		Title: "memory  ·  " + results.Run{Result: r}.Label(), Curves: curves,
		End:      time.Duration(r.TracedStep() * float64(time.Second)),
		Capacity: r.MemoryCapacities(), Margin: r.MemoryMargin,
	}, nil
}
