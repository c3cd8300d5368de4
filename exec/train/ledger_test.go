package train_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/kernels"
	"psim/exec/train"
	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// The memory that the cost model predicts equals the bytes of the tensors that the devices
// hold, at the peak of every rank, for every schedule with and without recomputation. Tasks run
// one by one, so that the order of messages is not left to chance; the prediction is replayed
// in the same order.
func TestPredictedMemoryIsTheLedger(t *testing.T) {
	networks := map[string]network.Network{"gpt": exectest.TiedGPT(t), "gpt dropout": exectest.DroppingGPT(t, 0.1),
		"mlp": exectest.MiniMLP(t), "vgg": exectest.Preset(t, "vgg-mini-pipeline")}
	for kind, n := range networks {
		if testing.Short() && kind != "mlp" {
			continue // only one network goes through all of it
		}
		for _, m := range ledgerModes() {
			for _, m.Recompute = range []kernels.Recompute{kernels.SaveAll, kernels.RepeatLayer} {
				t.Run(kind+"/"+m.String(), func(t *testing.T) {
					predicted, measured := ledgers(t, m, n, []int{2, 2, 2, 2})
					require.Equal(t, predicted.Persistent, measured.Persistent)
					require.Equal(t, exectest.Peaks(predicted), exectest.Peaks(measured))
				})
			}
		}
	}
}

// ledgerModes returns all schedules, and the ways to sum or shard over replicas.
func ledgerModes() []exectest.Spread {
	modes := []exectest.Spread{
		{Schedule: "zb-h1", Ranks: 1, Replicas: 1}, {Schedule: "zb-h2", Ranks: 3, Replicas: 1},
		{Schedule: "hw4", Ranks: 3, Replicas: 1},
		{Schedule: "interleaved-1f1b", Ranks: 2, Replicas: 1, Virtual: 2},
		{Schedule: "looped-bfs", Ranks: 2, Replicas: 1, Virtual: 2},
		{Schedule: "interleaved-zero-bubble", Ranks: 2, Replicas: 1, Virtual: 2},
		{Schedule: "hanayo", Ranks: 2, Replicas: 1, Virtual: 2},
		{Schedule: "ddp", Ranks: 1, Replicas: 2}, {Schedule: "ddp", Ranks: 1, Replicas: 3, Bucket: 1 << 30},
		{Schedule: "1f1b", Ranks: 2, Replicas: 2},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true},
		{Schedule: "zb-h1", Ranks: 2, Replicas: 2, Bucket: 3000, Overlap: true},
		{Schedule: "1f1b", Ranks: 2, Replicas: 1, Backward: training.BackwardPerLayer},
		{Schedule: "zb-h1", Ranks: 2, Replicas: 1, Backward: training.BackwardPerLayer},
		{Schedule: "zbv", Ranks: 2, Replicas: 1, Backward: training.BackwardPerLayer},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true, Backward: training.BackwardPerLayer},
		{Schedule: "1f1b", Ranks: 2, Replicas: 1, Backward: training.BackwardTwoPass},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true, Backward: training.BackwardTwoPass},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Backward: training.BackwardTwoPass},
		{Schedule: "hanayo", Ranks: 2, Replicas: 1, Virtual: 2, Backward: training.BackwardTwoPass},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Gloo: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true, Overlap: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 4, Sharded: true, Group: 2},
		{Schedule: "ddp", Ranks: 1, Replicas: 4, Sharded: true, Group: 2, Overlap: true, PerTensor: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 6, Sharded: true, Group: 2, Gloo: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true, Gloo: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Simplified: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true, Overlap: true, PerTensor: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true, PerTensor: true, Simplified: true, Gloo: true},
	}
	for _, name := range []string{"model-parallel", "gpipe", "torchgpipe", "1f1b"} {
		for _, ranks := range []int{1, 2, 3} {
			modes = append(modes, exectest.Spread{Schedule: name, Ranks: ranks, Replicas: 1})
		}
	}
	for _, name := range []string{"zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipev", "dualpipe", "chimera"} {
		modes = append(modes, exectest.Spread{Schedule: name, Ranks: 2, Replicas: 1})
	}
	return append(append(modes, loopModes()...), splitModes()...)
}

// splitModes returns ways to spread a step whose first stage is not split: with neighbours on other
// ranks and on the same one, with two copies, and with gradients that leave early.
func splitModes() (modes []exectest.Spread) {
	for _, m := range []exectest.Spread{
		{Schedule: "zb-h1", Ranks: 1}, {Schedule: "zb-h1", Ranks: 2}, {Schedule: "zb-h2", Ranks: 3},
		{Schedule: "zb-h1", Ranks: 2, Replicas: 2, Bucket: 3000, Overlap: true},
		{Schedule: "zb-h1", Ranks: 2, Loop: true}, {Schedule: "zbv", Ranks: 2, Backward: training.BackwardPerLayer},
		{Schedule: "zbv", Ranks: 1}, {Schedule: "zbv", Ranks: 2}, {Schedule: "v-half", Ranks: 2},
		{Schedule: "v-min", Ranks: 2}, {Schedule: "v-half", Ranks: 1}, {Schedule: "v-min", Ranks: 1},
		{Schedule: "dualpipe", Ranks: 2, Microbatches: 4}, {Schedule: "dualpipev", Ranks: 2, Microbatches: 4},
		{Schedule: "interleaved-zero-bubble", Ranks: 1, Virtual: 2},
		{Schedule: "interleaved-zero-bubble", Ranks: 2, Virtual: 2},
	} {
		m.Split, m.Replicas = training.SplitStage, max(1, m.Replicas)
		modes = append(modes, m)
	}
	return modes
}

// loopModes returns ways to spread a step in which zeroing and the loss are tasks.
func loopModes() []exectest.Spread {
	return []exectest.Spread{
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true, Loop: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Gloo: true, Loop: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Simplified: true, Overlap: true, Loop: true},
		{Schedule: "model-parallel", Ranks: 3, Replicas: 1, Backward: training.BackwardPerLayer, Loop: true},
		{Schedule: "gpipe", Ranks: 2, Replicas: 2, Loop: true},
		{Schedule: "gpipe", Ranks: 2, Replicas: 1, Backward: training.BackwardTwoPass, Loop: true},
		{Schedule: "1f1b", Ranks: 3, Replicas: 1, Loop: true}, {Schedule: "hw4", Ranks: 2, Replicas: 1, Loop: true},
		{Schedule: "interleaved-1f1b", Ranks: 2, Replicas: 1, Virtual: 2, Loop: true},
		{Schedule: "zb-h1", Ranks: 2, Replicas: 1, Loop: true}, {Schedule: "zbv", Ranks: 2, Replicas: 1, Loop: true},
		{Schedule: "dualpipe", Ranks: 2, Replicas: 1, Loop: true},
		{Schedule: "chimera", Ranks: 2, Replicas: 1, Loop: true},
	}
}

// ledgers returns the predicted memory of a step, and the devices' own.
func ledgers(t *testing.T, m exectest.Spread, n network.Network, samples []int) (predicted, measured *graph.Trace) {
	j := m.Job(t, n, samples)
	machine := costmodel.Machine{
		Device: costmodel.Device{Peak: costmodel.Peak{FP32: 1e9}, Efficiency: costmodel.Efficiency{FP32: 1}},
		Link:   link.Link{Bandwidth: 1e9},
	}
	costs, err := costmodel.StepCosts(machine, m.Workload(t, n, samples).Staged(), j.Graph)
	require.NoError(t, err)
	measured = alone(t, j, exectest.Batches(t, n, int(j.Total()), 1)[0])
	predicted = &graph.Trace{Graph: j.Graph, Spans: measured.Spans, Persistent: costs.Persistent}
	addMemory(predicted, costs)
	return predicted, measured
}

// addMemory adds the memory changes of the tasks to a trace.
func addMemory(trace *graph.Trace, costs graph.Costs) {
	add := func(at time.Duration, rank int32, bytes int64, task int32) {
		trace.Memory = append(trace.Memory, graph.MemoryEvent{At: at, Rank: rank, Bytes: bytes, Task: task})
	}
	for i := range int32(trace.Graph.Len()) {
		task := new(trace.Graph.Task(i))
		cost, at := costs.Task(task), task.Rank
		if task.Kind.Message() {
			at = task.Peer
		}
		add(trace.Span(i).Start, at, cost.BytesAtStart, i)
		add(trace.Span(i).End, task.Rank, cost.BytesAtEnd, i)
	}
	ordertest.SortMemory(trace, trace.Memory)
}

// alone returns the trace of a step whose tasks ran one by one.
func alone(t *testing.T, j train.Job, b data.StepBatch) *graph.Trace {
	devices, err := backend.Open(j.Graph.Ranks(), exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	trace, err := trainer.StepAlone(context.Background(), b)
	require.NoError(t, err)
	return trace
}
