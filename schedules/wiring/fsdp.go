package wiring

// A Unit is a stage whose parameters are sharded over the replicas: ZeRO stage
// 3, PyTorch's fully sharded data parallelism (Rajbhandari et al. 2020,
// section 5.3; Zhao et al. 2023, "PyTorch FSDP").
//
// Before each F, and each B or I, of the stage an all-gather makes its
// parameters whole; they are freed when that task ends. After each B or W a
// reduce-scatter leaves every replica with its share of the sum. Both carry
// the stage and the microbatch, and run on streams and in groups of their own,
// so that neither waits for the other. The average and the optimizer then work
// on shares, and nothing is gathered after them. A stage without parameters
// has no collectives.
//
// Without Sync.Overlap all of a rank's tasks are strictly in turn. With it at
// most two units are whole at any time: the gather for a use waits for the end
// of the use before the last, and a backward for the sum of the gradients
// before the last.
type Unit struct {
	// Gather is the size in bytes of the whole parameters that a use needs.
	Gather int64
	// Scatter is the size in bytes of the whole gradients that a backward makes.
	Scatter int64
	// Share is the size in bytes of the summed gradients that a replica keeps
	// for this stage.
	Share int64
}

// withUnits derives from the units what they imply.
func (s Sync) withUnits() Sync {
	if s.Units == nil {
		return s
	}
	s.Sharded, s.EveryMicrobatch, s.Parameters = true, true, nil
	s.Buckets = make([][]int64, len(s.Units))
	for i, u := range s.Units {
		if u.Scatter > 0 {
			s.Buckets[i] = []int64{u.Scatter}
		}
	}
	return s
}
