package picture

import (
	"time"

	"psim/results"
	"psim/schedules/graph"
)

// LoadMemory reads the memory figure of a saved run, whose title is that of memory.png. A trace that
// was read already, or nil, tells its bubble.
func LoadMemory(path string, trace *graph.Trace) (MemoryFigure, error) {
	r, curves, err := results.LoadMemory(path)
	if err != nil {
		return MemoryFigure{}, err
	}
	return MemoryFigure{
		Title: memoryTitle(results.Run{Result: r, Trace: trace}), Curves: curves,
		End:      time.Duration(r.TracedStep() * float64(time.Second)),
		Capacity: r.MemoryCapacities(), Margin: r.MemoryMargin,
	}, nil
}
