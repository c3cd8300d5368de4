package reports

import (
	"fmt"

	"psim/internal/units"
)

// The verdicts on memory.
const (
	Fits       = "fits"         // within the margin
	Close      = "close"        // within the memory, and not the margin
	DoesNotFit = "does not fit" // beyond the memory
)

// MemoryBytes is what the memory of a rank holds at its peak, whose bytes add up to
// the peak.
type MemoryBytes struct {
	// Weights in the precision of training: the rank's own, those that ZeRO 3 has
	// gathered, and versions that are stashed.
	Parameters int64 `json:"parameters" unit:"bytes"`
	// Sums over microbatches, and under ZeRO 2 and 3 whole ones that have yet to be
	// scattered.
	Gradients   int64 `json:"gradients" unit:"bytes"`
	Optimizer   int64 `json:"optimizer" unit:"bytes"`   // moments, and in mixed precision the fp32 weights
	Activations int64 `json:"activations" unit:"bytes"` // what passes make and keep, their gradients, and messages between stages
	Buffers     int64 `json:"buffers" unit:"bytes"`     // what collectives need to run
	Context     int64 `json:"context" unit:"bytes"`     // of driver and libraries; 0 where it is not modelled
}

// Limits are the memory of the ranks, in bytes.
type Limits struct {
	// Capacity is what every rank may use; nil is unlimited. A peak equal to it fits.
	Capacity []int64
	// Margin is the share of the memory that Capacity is without, and Memory what a
	// rank has with it, where there is a margin.
	Margin float64
	Memory int64
}

// Fits reports whether the memory of every rank suffices, with its margin.
func (r Result) Fits() bool { return r.FitsMemory && r.MemoryVerdict != Close }

// checkMemory sets the verdict and the capacities, and warns about the rank that
// lacks the most.
func (r *Result) checkMemory(l Limits) {
	short, worst, lack := 0, 0, int64(0)
	for i := range min(len(r.Ranks), len(l.Capacity)) {
		r.Ranks[i].MemoryCapacity = l.Capacity[i]
		over := r.Ranks[i].PeakMemory - l.Capacity[i]
		if over > 0 {
			short++
		}
		if over > lack {
			worst, lack = i, over
		}
	}
	r.FitsMemory = true
	if len(l.Capacity) == 0 {
		return
	}
	if r.MemoryVerdict = Fits; short == 0 {
		return
	}
	peak, has := r.Ranks[worst].PeakMemory, max(l.Memory, l.Capacity[worst])
	need := fmt.Sprintf("rank %d needs %s of memory and has %s", worst, units.FormatBytes(peak), units.FormatBytes(has))
	than := "than they have"
	if peak <= has {
		r.MemoryVerdict = Close
		need += fmt.Sprintf(", of which machine.memory_margin is to leave %s free", percent(l.Margin))
		than = "than the margin allows"
	} else {
		r.MemoryVerdict, r.FitsMemory = DoesNotFit, false
		need += fmt.Sprintf(", %s too little", units.FormatBytes(peak-has))
	}
	if short > 1 {
		need += fmt.Sprintf("; %d ranks need more %s", short, than)
	}
	r.Warnings = append(r.Warnings, need)
}
