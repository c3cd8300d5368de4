// Package memory says how much of this machine's memory is free, and refuses
// graphs that do not fit into it.
package memory

import (
	"fmt"
	"os"
	"strings"

	"psim/internal/units"
)

// bytesPerTask bounds what building, simulating and writing a graph takes per
// task, measured on 1F1B with 1 to 20 million tasks and rounded up.
const bytesPerTask = 250

// CheckTasks refuses a graph that would not fit. The number of tasks is an
// estimate from above.
func CheckTasks(tasks float64) error {
	need, have := tasks*bytesPerTask, float64(Free())
	if need <= have {
		return nil
	}
	return fmt.Errorf("the graph would have about %.2g tasks and need about %s of memory, of which %s are free here; make it smaller",
		tasks, units.FormatBytes(int64(min(need, 1e18))), units.FormatBytes(int64(have)))
}

// Free returns how many bytes can be used. Where the system does not say so, it
// assumes those of a small machine.
func Free() int64 {
	const assumed = 8 << 30
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return assumed
	}
	for line := range strings.Lines(string(data)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return assumed
}
