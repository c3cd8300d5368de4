package psim

import (
	"cmp"
	"slices"

	"psim/configs"
	"psim/costmodel/arch"
	"psim/costmodel/memory"
	"psim/reports"
)

// Info returns what the result of a plan says that its trace does not.
func Info(c *configs.Config, plan *configs.Plan) reports.Info {
	shape := plan.Graph.Shape
	return reports.Info{
		Name: c.Name(), Schedule: plan.Graph.Name,
		Stages: shape.Ranks, VirtualStages: shape.Virtual, Microbatches: shape.Microbatches,
		DataParallel: max(1, shape.Replicas), TensorParallel: max(1, c.Parallel.Tensor), Sequence: c.Parallel.Sequence,
		Samples: plan.Samples, Tokens: plan.Tokens, Work: work(plan), Config: c.Object(), Warnings: slices.Clone(plan.Warnings),
		Limits: reports.Limits{Capacity: plan.Capacity, Margin: plan.Machine.Device.Margin, Memory: int64(plan.Machine.Device.Memory)},
	}
}

// work says what a step computes, where there is a network.
func work(plan *configs.Plan) reports.Work {
	if plan.Workload == nil {
		return reports.Work{}
	}
	n, device := plan.Network, plan.Machine.Device
	precision := cmp.Or(plan.Workload.Training.Precision, "fp32")
	w := reports.Work{
		Parameters: n.Parameters(), ActiveParameters: n.ActiveParameters(),
		Precision: precision, Device: device.Name,
		ModelFLOPs:    3 * float64(n.FLOPs(arch.Forward)) * float64(plan.Samples),
		HardwareFLOPs: plan.Workload.FLOPs(), PeakFLOPs: float64(device.PeakIn(precision)),
	}
	if plan.Tokens > 0 {
		w.SequenceLength = n.TokensPerSample
	}
	return w
}

// memoryAtPeak divides the peak of every rank by what it holds; nil where no memory
// was modelled.
func (s Simulation) memoryAtPeak() []reports.MemoryBytes {
	list := make([]reports.MemoryBytes, len(s.Summary.Ranks))
	if s.Plan.Workload == nil {
		var any int64
		for r, rank := range s.Summary.Ranks {
			list[r].Activations = rank.PeakMemory
			any = max(any, rank.PeakMemory)
		}
		if any == 0 {
			return nil
		}
		return list
	}
	for r, b := range memory.NewLedger(s.Plan.Workload, s.Plan.Graph).AtPeak(s.Trace) {
		list[r] = reports.MemoryBytes{
			Parameters: b.Parameters, Gradients: b.Gradients, Optimizer: b.Optimizer,
			Activations: b.Activations, Buffers: b.Buffers,
		}
	}
	return list
}
