package exec_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/exec"
	"psim/exec/programs"
	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// The memory that the cost model predicts is the bytes of the tensors that the
// devices hold, at the peak of every rank, for every schedule with and without
// recomputation. Tasks run one by one, so that the order in which messages come
// and go is not left to chance; the prediction is replayed in the same order.
func TestPredictedMemoryIsTheLedger(t *testing.T) {
	networks := map[string]network.Network{"gpt": tiedGPT(t), "gpt dropout": droppingGPT(t, 0.1), "mlp": miniMLP(t), "vgg": preset(t, "vgg-mini-pipeline")}
	for kind, n := range networks {
		if testing.Short() && kind != "mlp" {
			continue // one network goes through all of it
		}
		for _, m := range ledgerModes() {
			for _, m.recompute = range []programs.Recompute{programs.SaveAll, programs.RepeatLayer} {
				t.Run(kind+"/"+m.String(), func(t *testing.T) {
					predicted, measured := ledgers(t, m, n, []int{2, 2, 2, 2})
					require.Equal(t, predicted.Persistent, measured.Persistent)
					require.Equal(t, peaks(predicted), peaks(measured))
				})
			}
		}
	}
}

// ledgerModes are all schedules, and the ways to add up or share over replicas.
func ledgerModes() []mode {
	modes := []mode{
		{schedule: "zb-h1", ranks: 1, replicas: 1}, {schedule: "zb-h2", ranks: 3, replicas: 1}, {schedule: "hw4", ranks: 3, replicas: 1},
		{schedule: "interleaved-1f1b", ranks: 2, replicas: 1, virtual: 2}, {schedule: "looped-bfs", ranks: 2, replicas: 1, virtual: 2},
		{schedule: "interleaved-zero-bubble", ranks: 2, replicas: 1, virtual: 2}, {schedule: "hanayo", ranks: 2, replicas: 1, virtual: 2},
		{schedule: "ddp", ranks: 1, replicas: 2}, {schedule: "ddp", ranks: 1, replicas: 3, bucket: 1 << 30}, {schedule: "1f1b", ranks: 2, replicas: 2},
		{schedule: "ddp", ranks: 1, replicas: 2, bucket: 3000, overlap: true}, {schedule: "zb-h1", ranks: 2, replicas: 2, bucket: 3000, overlap: true},
		{schedule: "1f1b", ranks: 2, replicas: 1, backward: training.BackwardPerLayer}, {schedule: "zb-h1", ranks: 2, replicas: 1, backward: training.BackwardPerLayer},
		{schedule: "zbv", ranks: 2, replicas: 1, backward: training.BackwardPerLayer}, {schedule: "ddp", ranks: 1, replicas: 2, bucket: 3000, overlap: true, backward: training.BackwardPerLayer},
		{schedule: "1f1b", ranks: 2, replicas: 1, backward: training.BackwardTwoPass}, {schedule: "ddp", ranks: 1, replicas: 2, bucket: 3000, overlap: true, backward: training.BackwardTwoPass},
		{schedule: "ddp", ranks: 1, replicas: 2, sharded: true, backward: training.BackwardTwoPass}, {schedule: "hanayo", ranks: 2, replicas: 1, virtual: 2, backward: training.BackwardTwoPass},
		{schedule: "ddp", ranks: 1, replicas: 2, sharded: true}, {schedule: "ddp", ranks: 1, replicas: 2, sharded: true, gloo: true},
		{schedule: "ddp", ranks: 1, replicas: 3, sharded: true, overlap: true}, {schedule: "ddp", ranks: 1, replicas: 3, sharded: true, gloo: true},
		{schedule: "ddp", ranks: 1, replicas: 2, sharded: true, simplified: true}, {schedule: "ddp", ranks: 1, replicas: 3, sharded: true, overlap: true, perTensor: true},
		{schedule: "ddp", ranks: 1, replicas: 3, sharded: true, perTensor: true, simplified: true, gloo: true},
	}
	for _, name := range []string{"model-parallel", "gpipe", "torchgpipe", "1f1b"} {
		for _, ranks := range []int{1, 2, 3} {
			modes = append(modes, mode{schedule: name, ranks: ranks, replicas: 1})
		}
	}
	for _, name := range []string{"zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipev", "dualpipe", "chimera"} {
		modes = append(modes, mode{schedule: name, ranks: 2, replicas: 1})
	}
	return modes
}

// ledgers is the memory that is predicted for a step, and the devices' own.
func ledgers(t *testing.T, m mode, n network.Network, samples []int) (predicted, measured *graph.Trace) {
	j := m.job(t, n, samples)
	machine := costmodel.Machine{
		Device: costmodel.Device{Peak: costmodel.Peak{FP32: 1e9}, Efficiency: costmodel.Efficiency{FP32: 1}},
		Link:   link.Link{Bandwidth: 1e9},
	}
	costs, err := costmodel.StepCosts(machine, m.workload(t, n, samples).Staged(), j.Graph)
	require.NoError(t, err)
	measured = alone(t, j, batches(t, n, int(j.Total()), 1)[0])
	predicted = &graph.Trace{Graph: j.Graph, Spans: measured.Spans, Persistent: costs.Persistent}
	addMemory(predicted, costs)
	return predicted, measured
}

func peaks(trace *graph.Trace) (list []int64) {
	for _, r := range graph.Summarize(trace).Ranks {
		list = append(list, r.PeakMemory)
	}
	return list
}

// addMemory changes the memory of a trace as its tasks cost.
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

// alone is a step whose tasks ran one by one.
func alone(t *testing.T, j exec.Job, b exec.Batch) *graph.Trace {
	devices, err := exec.OpenDevices(j.Graph.Ranks(), exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	trace, err := trainer.StepAlone(context.Background(), b)
	require.NoError(t, err)
	return trace
}
