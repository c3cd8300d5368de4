package advise

import (
	"psim"
	"psim/results/judged"
)

// CompareMemory holds the memory that a log prints against a prediction: of tensors (allocated), against what the
// tensors of the rank take that has the highest peak, and of PyTorch's allocator (reserved), against the memory of the
// process. It returns nil where the log prints neither.
func CompareMemory(p *psim.Prediction, allocated, reserved int64) *judged.LoggedMemory {
	if allocated == 0 && reserved == 0 {
		return nil
	}
	r := p.Result
	m := &judged.LoggedMemory{
		Allocated: allocated, Reserved: reserved, Peak: r.PeakMemory(), Verdict: r.MemoryVerdict,
	}
	for _, rank := range r.Ranks {
		tensors := rank.PeakMemory
		if rank.Memory != nil {
			tensors -= rank.Memory.Context
		}
		m.Tensors = max(m.Tensors, tensors)
		if rank.PeakMemory == m.Peak {
			m.Capacity = rank.MemoryCapacity
		}
	}
	return m
}
