package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// With split = "stage" the first stage's I does nothing, and its W takes what its whole backward takes: the time of
// both halves, and the bytes that both free. Nothing else changes, and the step differs by the time of
// the input gradients of the first stage at most.
func TestUnsplitFirst(t *testing.T) {
	networks := []network.Network{smallGPT(t), mlp(t, 5, 8), build(t, models.Model{Preset: "vgg-mini"})}
	rapid.Check(t, func(rt *rapid.T) {
		w := workload(rt, rapid.SampledFrom(networks).Draw(rt, "network"), rapid.SampledFrom(placements).Draw(rt, "placement"),
			rapid.SampledFrom(samplings).Draw(rt, "samples")...)
		w.Training = rapid.SampledFrom(recomputations()).Draw(rt, "recompute")
		w.Process.KeepOutputs = rapid.Bool().Draw(rt, "keep outputs")
		o := orderOf(rt, "gpipe", w)
		o = splitOrders(o)[rapid.SampledFrom([]string{"at once", "last", "zb-h1"}).Draw(rt, "order")]
		m := machine()
		m.Device.Launch = 0
		byLayer := graphOf(rt, w, o)
		want := costsOf(rt, w, m, byLayer)
		layer := run(rt, byLayer, want)
		w.Training.Split = training.SplitStage
		byStage := graphOf(rt, w, o)
		got := costsOf(rt, w, m, byStage)
		stage := run(rt, byStage, got)
		ledger(rt, stage)
		require.Equal(rt, want.Persistent, got.Persistent)

		var inputs time.Duration
		type pass struct{ stage, microbatch int32 }
		sums := map[pass][2]graph.Cost{}
		for i, task := range byLayer.Tasks() {
			a, b := want.Task(&task), got.Task(new(byStage.Task(i)))
			if task.Stage != 0 || task.Kind != graph.InputGradient && task.Kind != graph.WeightGradient {
				require.Equal(rt, a.Busy, b.Busy)
				continue
			}
			if task.Kind == graph.InputGradient {
				require.Zero(rt, b)
				inputs += a.Busy
			}
			both := sums[pass{task.Stage, task.Microbatch}]
			for k, c := range []graph.Cost{a, b} {
				both[k].Busy += c.Busy
				both[k].BytesAtEnd += c.BytesAtStart + c.BytesAtEnd
			}
			sums[pass{task.Stage, task.Microbatch}] = both
		}
		require.Len(rt, sums, len(w.Samples))
		for _, both := range sums {
			require.Equal(rt, both[0].Busy, both[1].Busy)
		}
		require.InDelta(rt, layer.End(), stage.End(), float64(inputs))
	})
}
