package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// In a pipeline under ZeRO 3 a rank gathers each of its layers for every forward and backward of every microbatch, and
// scatters its gradients as often, or once. It computes and sends what it does without ZeRO, in the same order.
func TestUnitsOfPipelines(t *testing.T) {
	const replicas = 4
	rapid.Check(t, func(t *rapid.T) {
		n := untied(t)
		whole := workload(t, n, rapid.SampledFrom([][]int32{{0, 1}, {0, 1, 0, 1}, {0, 1, 2}, {0, 1, 1, 0}}).Draw(t, "ranks"), 2, 2, 2, 2)
		whole.Replicas, whole.Training = replicas, training.Options{Recompute: rapid.SampledFrom([]string{"none", "full"}).Draw(t, "recompute")}
		whole.Overlap = rapid.Bool().Draw(t, "overlap")
		cut := whole
		cut.Zero = 3
		cut.CutIntoLayers()
		require.Equal(t, whole.Placement.First, cut.Pipeline())
		cut.SumOnce = cut.Overlap && rapid.Bool().Draw(t, "once")
		schedules := []string{"gpipe", "1f1b"}
		if shape(whole).Ranks < len(whole.Layers) {
			schedules = schedules[:1]
		}
		o := orderOf(t, rapid.SampledFrom(schedules).Draw(t, "schedule"), whole)
		if rapid.Bool().Draw(t, "halves") {
			o = splitOrders(o)["zb-h1"]
		}
		of := func(g *graph.Graph, cost func(*graph.Task) graph.Cost) (gathered, scattered, sent, computed []int64) {
			ranks := g.Shape.Ranks
			gathered, scattered, sent, computed = make([]int64, ranks), make([]int64, ranks), make([]int64, ranks), make([]int64, ranks)
			for _, task := range g.Tasks() {
				r := task.Rank
				switch {
				case int(r) >= ranks:
				case task.Kind == graph.AllGather && task.Microbatch != graph.None:
					gathered[r] += task.Bytes
				case task.Kind == graph.ReduceScatter:
					scattered[r] += task.Bytes
				case task.Kind.Message():
					sent[r] += task.Bytes
				case task.Kind.Pass():
					computed[r] += int64(cost(&task).Busy)
				}
			}
			return gathered, scattered, sent, computed
		}
		costs, err := costmodel.StepCosts(machine(), whole.Staged(), graphOf(t, whole, o))
		require.NoError(t, err)
		_, _, sent, computed := of(graphOf(t, whole, o), costs.Task)
		g := graphOf(t, cut, o.Layered(cut.PipelineLayers))
		require.NoError(t, cut.Staged().Check(g))
		costs, err = costmodel.StepCosts(machine(), cut.Staged(), g)
		require.NoError(t, err)
		gathered, scattered, units, layers := of(g, costs.Task)
		require.Equal(t, sent, units, "messages between the stages of the pipeline alone")
		for r := range computed {
			require.InDelta(t, computed[r], layers[r], float64(8*len(cut.Layers)), "rounded to nanoseconds")
		}
		all := make([]int64, len(sent))
		for s, st := range cut.Staged().Stages {
			all[cut.Placement.First[s]] += 4 * st.Stored
		}
		for r := range all {
			require.Equal(t, 2*4*all[r], gathered[r])
			sums := int64(4)
			if cut.SumOnce {
				sums = 1
			}
			require.Equal(t, sums*all[r], scattered[r])
		}
		for _, peak := range ledger(t, simulate(t, cut, machine(), g)) {
			require.Positive(t, peak)
		}
	})
}
