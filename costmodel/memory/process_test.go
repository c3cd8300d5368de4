package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules/graph"
	"psim/sim"
)

// What 1e10 parameters over 8 workers take with Adam, in bytes a parameter: whole ones,
// and shares of an eighth.
func TestProcess(t *testing.T) {
	for _, c := range []struct {
		precision, gradients string
		zero                 int
		process              stages.ProcessMemory
		whole, shared        float64
	}{
		{"fp16", "", 1, stages.ProcessMemory{GradientCopies: true}, 2 + 2, 12 + 2 + 4},
		{"bf16", "", 1, stages.ProcessMemory{GradientCopies: true}, 2 + 2 + 4, 12},
		{"bf16", "fp32", 1, stages.ProcessMemory{GradientCopies: true}, 2 + 2 + 4, 12},
		{"bf16", "fp32", 2, stages.ProcessMemory{GradientCopies: true}, 2, 2 + 4 + 12},
		{"fp32", "", 1, stages.ProcessMemory{GradientCopies: true}, 4 + 4, 8},
		{"bf16", "", 3, stages.ProcessMemory{FP32Shards: true}, 0, 4 + 12},
		{"bf16", "fp32", 3, stages.ProcessMemory{FP32Shards: true}, 0, 4 + 12},
		{"fp32", "", 3, stages.ProcessMemory{FP32Shards: true}, 0, 4 + 4 + 8},
		{"bf16", "", 2, stages.ProcessMemory{FP32Shards: true}, 2, 2 + 12},
		{"bf16", "", 0, stages.ProcessMemory{Context: 7, Buffers: 11}, 16, 0},
	} {
		w := stages.Workload{
			Network: ten(), Layers: []int{1}, Placement: graph.Placement{First: []int32{0}}, Samples: []int64{1}, Replicas: 8, Zero: c.zero,
			Training: training.Options{Precision: c.precision, Gradients: c.gradients, Optimizer: "adam"}, Process: c.process,
		}
		lasting := memory.PersistentBreakdown(w.Staged(), 8)[3]
		require.EqualValues(t, 1e10*(c.whole+c.shared/8)+float64(c.process.Context+c.process.Buffers), lasting.Sum(), "%+v", c)
		require.Equal(t, c.process.Context, lasting.Context)
		require.Equal(t, c.process.Buffers, lasting.Buffers)
	}
}

// An allocator's share comes and goes with the tensors, whatever their order.
func TestReserve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 2).Draw(t, "share")
		staged := &stages.Staged{Workload: stages.Workload{Process: stages.ProcessMemory{Allocator: share}}}
		g := &graph.Graph{Shape: graph.Shape{Ranks: 2, Microbatches: 1}}
		var changes []int64
		live := make([]int64, 2)
		change := func(rank int32, bytes int64) {
			live[rank] += bytes
			changes = append(changes, bytes)
			g.Add(graph.Task{Rank: rank, Stream: rank, Part: uint16(len(changes) - 1), Peer: graph.None})
		}
		for rank := range int32(2) {
			g.AddStream(rank, "compute")
		}
		for _, bytes := range rapid.SliceOf(rapid.Int64Range(0, 1<<40)).Draw(t, "bytes") {
			change(int32(bytes%2), bytes)
			if bytes%3 == 0 {
				change(int32(bytes%2), -live[bytes%2]/2)
			}
		}
		before := []int64{live[0], live[1]}
		for r, bytes := range before {
			change(int32(r), -bytes)
		}
		trace, err := sim.Run(g, graph.Costs{Task: func(t *graph.Task) graph.Cost {
			return graph.Cost{Busy: 1, BytesAtStart: changes[t.Part]}
		}})
		require.NoError(t, err)
		memory.Reserve(staged, trace)
		sum, peak := make([]int64, 2), make([]int64, 2)
		for r, events := range trace.ChangesByRank() {
			for e := range events {
				if int(e.Task) == len(changes)-2+int(r) {
					require.Equal(t, before[r]+staged.Process.Reserve(before[r]), sum[r])
				}
				sum[r] += e.Bytes
				require.GreaterOrEqual(t, sum[r], int64(0))
				peak[r] = max(peak[r], sum[r])
			}
		}
		require.Equal(t, []int64{0, 0}, sum)
		s := graph.Summarize(trace)
		require.Equal(t, peak, []int64{s.Ranks[0].PeakMemory, s.Ranks[1].PeakMemory})
	})
}
