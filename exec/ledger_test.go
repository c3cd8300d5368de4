package exec_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/arch"
	"psim/exec"
	"psim/schedules"
)

// The memory that the cost model predicts is the bytes of the tensors that the
// devices hold, at the peak of every rank. Tasks run one by one, so that the
// order in which messages come and go is not left to chance.
func TestPredictedMemoryIsTheLedger(t *testing.T) {
	for kind, n := range map[string]arch.Network{"gpt": tiedGPT(t), "gpt dropout": droppingGPT(t, 0.1), "mlp": miniMLP(t), "vgg": arch.MiniVGG(false)} {
		for _, name := range []string{"model-parallel", "gpipe", "torchgpipe", "1f1b"} {
			for _, ranks := range []int{1, 2, 3} {
				t.Run(kind+"/"+name, func(t *testing.T) {
					m := mode{schedule: name, ranks: ranks, replicas: 1}
					j := m.job(t, n, []int{2, 2, 2, 2})
					w := costmodel.Workload{Network: n, Layers: j.Layers, StageRank: j.Graph.StageRank, Samples: []int64{2, 2, 2, 2}, Training: training}
					machine := costmodel.Machine{
						Device: costmodel.Device{Peak: costmodel.Peak{FP32: 1e9}, Efficiency: costmodel.Efficiency{FP32: 1}},
						Link:   costmodel.Link{Bandwidth: 1e9},
					}
					costs, err := w.Costs(machine, j.Graph)
					require.NoError(t, err)
					measured := profile(t, j, batches(t, n, 8, 1)[0])
					predicted := &schedules.Trace{Graph: j.Graph, Spans: measured.Spans, Persistent: costs.Persistent}
					addMemory(predicted, costs)
					require.Equal(t, peaks(predicted), peaks(measured))
				})
			}
		}
	}
}

func peaks(trace *schedules.Trace) (list []int64) {
	for _, r := range schedules.Summarize(trace).Ranks {
		list = append(list, r.PeakMemory)
	}
	return list
}

// addMemory changes the memory of a trace as its tasks cost.
func addMemory(trace *schedules.Trace, costs schedules.Costs) {
	add := func(at time.Duration, rank int32, bytes int64, task int) {
		trace.Memory = append(trace.Memory, schedules.MemoryEvent{At: at, Rank: rank, Bytes: bytes, Task: int32(task)})
	}
	for i := range trace.Graph.Tasks {
		task := &trace.Graph.Tasks[i]
		cost, at := costs.Task(task), task.Rank
		if task.Kind.Message() {
			at = task.Peer
		}
		add(trace.Spans[i].Start, at, cost.BytesAtStart, i)
		add(trace.Spans[i].End, task.Rank, cost.BytesAtEnd, i)
	}
	trace.SortMemory()
}

// profile is a step whose tasks ran one by one.
func profile(t *testing.T, j exec.Job, b exec.Batch) *schedules.Trace {
	devices, err := exec.OpenDevices(j.Graph.Ranks(), exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	traces, err := trainer.Profile(context.Background(), b, 1)
	require.NoError(t, err)
	return traces[0]
}
