package psim

import (
	"cmp"
	"slices"

	"psim/configs"
	"psim/costmodel/memory"
	"psim/costmodel/network"
	"psim/results"
	"psim/schedules"
	"psim/schedules/graph"
)

// Info returns what the result of a plan says that its trace does not.
func Info(c *configs.Config, plan *configs.Plan) results.Info {
	shape := plan.Graph.Shape
	return results.Info{
		Name: c.Name(), Schedule: plan.Graph.Name,
		Stages: shape.Ranks, VirtualStages: shape.Virtual, Microbatches: shape.Microbatches,
		DataParallel: max(1, shape.Replicas), TensorParallel: max(1, c.Parallel.Tensor), ContextParallel: c.Parallel.Context, ExpertParallel: c.Parallel.Expert, ContextCollective: contextCollective(c), Sequence: c.Parallel.Sequence,
		Samples: plan.Samples, Shards: shards(plan), Tokens: plan.Tokens, DataSet: c.Data.Samples, Work: work(c, plan), Config: c.Object(), Memory: memoryOf(plan), Warnings: slices.Clone(plan.Warnings),
		Limits: results.Limits{Capacity: plan.Capacity, Margin: plan.Machine.Device.Margin, Close: plan.Close, Memory: int64(plan.Machine.Device.Memory),
			Node: int64(plan.Machine.MemoryPerNode), DevicesPerNode: plan.Machine.DevicesPerNode, On: plan.Machine.Node},
	}
}

// contextCollective names what the parts of sequences do with each other.
func contextCollective(c *configs.Config) string {
	switch c.Parallel.ContextMethod {
	case schedules.ContextGather:
		return "all-gather, reduce-scatter"
	case schedules.ContextUlysses:
		return "all-to-all"
	}
	return "send"
}

// shards lists the samples of every replica where they differ.
func shards(plan *configs.Plan) []int64 {
	if plan.Workload == nil || plan.Workload.Shards == nil {
		return nil
	}
	return plan.Workload.PerReplica()
}

// work says what a step computes, where there is a network.
func work(c *configs.Config, plan *configs.Plan) results.Work {
	if plan.Workload == nil {
		return results.Work{}
	}
	n, device := plan.Network, plan.Machine.Device
	precision := cmp.Or(plan.Workload.Training.Precision, "fp32")
	w := results.Work{
		Parameters: n.Parameters(), ActiveParameters: n.ActiveParameters(), Read: c.Model.File != "",
		Precision: precision, Device: device.Name,
		ModelFLOPs:    3 * float64(n.FLOPs(network.Forward)) * float64(plan.Samples),
		HardwareFLOPs: plan.Workload.FLOPs(), PeakFLOPs: float64(device.PeakIn(precision)),
	}
	if c.Train.Stack != "none" {
		w.Stack = c.Train.Stack
	}
	if plan.Tokens > 0 {
		w.SequenceLength = n.TokensPerSample
	}
	return w
}

// memoryOf returns what divides the peak memory of a trace of the plan's graph by what
// it holds. It returns nothing where no memory was modelled.
func memoryOf(plan *configs.Plan) func(*graph.Trace, graph.Summary) []results.MemoryBytes {
	return func(t *graph.Trace, s graph.Summary) []results.MemoryBytes {
		switch {
		case plan.Workload != nil:
			return memoryBytes(memory.NewLedger(plan.Workload, plan.Graph).AtPeak(t))
		case len(t.Memory) == 0:
			return nil
		}
		list := make([]results.MemoryBytes, len(s.Ranks))
		for r, rank := range s.Ranks {
			list[r].Activations = rank.PeakMemory
		}
		return list
	}
}

func memoryBytes(parts []memory.Bytes) []results.MemoryBytes {
	list := make([]results.MemoryBytes, len(parts))
	for r, b := range parts {
		list[r] = results.MemoryBytes{
			Parameters: b.Parameters, Gradients: b.Gradients, Optimizer: b.Optimizer,
			Activations: b.Activations, Buffers: b.Buffers, Context: b.Context,
		}
	}
	return list
}
