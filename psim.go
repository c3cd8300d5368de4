// Package psim predicts how a distributed training step runs: its time, bubbles,
// memory and communication. Load reads a configuration, Predict builds its task graph,
// simulates that and sums up what happened, Estimate does so without the trace of every
// task, and Compare holds two predictions, or saved results, against each other.
//
// What asks for many predictions has packages of its own: plans finds the best way to
// divide a network over devices, sweep varies settings, and advise says what would make a
// step fit in memory and what one change would give. Package results is the saved form of
// a run, and reports writes its tables, pictures and files. Package exec runs the same
// graphs for real; psim never imports it, so that a program which predicts needs neither
// gomlx nor a backend.
package psim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"psim/configs"
	"psim/configs/parallel"
	"psim/costmodel/memory"
	"psim/results"
	"psim/results/compare"
	"psim/schedules/graph"
)

// Load reads a configuration: a TOML file, or an embedded example by its bare name
// (configs.Examples lists them). sets are settings KEY=VALUE over it, with dotted
// keys, applied in order.
func Load(pathOrName string, sets ...string) (*configs.Config, error) {
	return configs.Load(pathOrName, sets...)
}

// Compare says by how much run b differs from run a, and where the difference comes
// from. A run is a Prediction's, or a saved one that reports.Load has read.
func Compare(a, b results.Run) compare.Comparison { return compare.Compare(a, b) }

// Info returns what the result of a plan says that its trace does not.
func Info(c *configs.Config, experiment *configs.Experiment) results.Info {
	shape, machine := experiment.Graph.Shape, &experiment.Machine
	return results.Info{
		Name: c.Name(), Schedule: experiment.Graph.Name,
		Stages: shape.Ranks, VirtualStages: shape.Virtual, Microbatches: shape.Microbatches,
		DataParallel: max(1, shape.Replicas), TensorParallel: max(1, c.Parallel.Tensor),
		ZeroGroup: c.Parallel.Sharing(), ContextParallel: c.Parallel.Context, ContextCollective: contextCollective(c),
		ExpertParallel: c.Parallel.Expert, SequenceParallel: c.Parallel.Sequence,
		Samples: experiment.Samples, Shards: shards(experiment), Tokens: experiment.Tokens, DataSet: experiment.DataSet,
		Work: work(c, experiment), Config: c.Object(), Memory: memoryOf(experiment),
		Warnings: slices.Clone(experiment.Warnings),
		Limits: results.Limits{
			Capacity: experiment.Capacity, Margin: machine.Device.Margin, Close: experiment.Close,
			Memory: int64(machine.Device.Memory),
			Node:   int64(machine.MemoryPerNode), DevicesPerNode: machine.DevicesPerNode, On: machine.Node,
		},
	}
}

// lastStep simulates the last step of an epoch, if it is smaller than the others. It returns 0 if
// it is not, or if the schedule cannot run so few samples.
func lastStep(c *configs.Config, experiment *configs.Experiment) time.Duration {
	if experiment.Samples == 0 || configs.IsSearched(c.Schedule.Name) {
		return 0
	}
	left := c.Left(experiment)
	if left == nil {
		return 0
	}
	last, err := left.BuildFor(context.Background(), configs.BuildOptions{Folded: true, Brief: true})
	if err != nil {
		return 0
	}
	s, err := Simulate(last)
	if err != nil {
		return 0
	}
	return s.Summary.StepTime - s.Summary.Startup
}

// contextCollective names what the parts of sequences do with each other.
func contextCollective(c *configs.Config) string {
	switch c.Parallel.ContextMethod {
	case parallel.ContextGather:
		return "all-gather, reduce-scatter"
	case parallel.ContextUlysses:
		return "all-to-all"
	}
	return "send"
}

// shards lists the samples of every replica where they differ.
func shards(experiment *configs.Experiment) []int64 {
	if experiment.Staged == nil || experiment.Staged.Shards == nil {
		return nil
	}
	return experiment.Staged.PerReplica()
}

// work says what a step computes, where there is a network.
func work(c *configs.Config, experiment *configs.Experiment) results.Work {
	if experiment.Staged == nil {
		return results.Work{}
	}
	n, device := experiment.Network, experiment.Machine.Device
	precision := cmp.Or(experiment.Staged.Training.Precision, "fp32")
	w := results.Work{
		Parameters: n.Parameters(), ActiveParameters: n.ActiveParameters(), Read: c.Model.File != "",
		Windows: n.Windows(), Precision: precision, Device: device.Name,
		ModelFLOPs:    n.ModelFLOPs() * float64(experiment.Samples),
		HardwareFLOPs: experiment.Staged.FLOPs(), PeakFLOPs: float64(device.PeakIn(precision)),
	}
	if trained := n.Trained(); trained < w.Parameters {
		w.TrainedParameters = trained
	}
	if c.Train.Stack != "none" {
		w.Stack = c.Train.Stack
	}
	if experiment.Tokens > 0 {
		w.SequenceLength = n.TokensPerSample
	}
	return w
}

// memoryOf returns what divides the peak memory of a measured trace of the experiment's graph by
// what it holds. It returns nothing where no memory was modelled.
func memoryOf(experiment *configs.Experiment) func(*graph.Trace, graph.Summary) []results.MemoryBytes {
	return func(t *graph.Trace, s graph.Summary) []results.MemoryBytes {
		switch {
		case experiment.Staged != nil:
			return memoryBytes(memory.NewLedger(experiment.Staged, experiment.Graph).AtMeasuredPeak(t))
		case len(t.Memory) == 0:
			return nil
		}
		return activations(s)
	}
}

// activations counts all memory as that of activations, where no other is modelled.
func activations(s graph.Summary) []results.MemoryBytes {
	list := make([]results.MemoryBytes, len(s.Ranks))
	for r, rank := range s.Ranks {
		list[r].Activations = rank.PeakMemory
	}
	return list
}

func memoryBytes(parts []memory.Breakdown) []results.MemoryBytes {
	list := make([]results.MemoryBytes, len(parts))
	for r, b := range parts {
		list[r] = results.MemoryBytes{
			Parameters: b.Parameters, Gradients: b.Gradients, Optimizer: b.Optimizer,
			Activations: b.Activations, Buffers: b.Buffers, Context: b.Context,
		}
	}
	return list
}
