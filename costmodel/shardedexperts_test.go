package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/memory"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// Under ZeRO 3 a device with d replicas in expert groups of e gathers what all hold among d devices and its experts
// among the d/e that have the same ones, for every forward and backward. It scatters the gradients of both, each
// microbatch or once a step, and keeps a share of each.
func TestShardedExperts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.SampledFrom([]int{8, 24}).Draw(t, "replicas")
		e := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "expert group")
		samples := rapid.SampledFrom([][]int64{{2}, {1, 1, 1}}).Draw(t, "samples")
		w := sharded(mixture(t, group.Group{Expert: e}), replicas, samples...)
		w.Training = training.Options{Precision: "bf16", Optimizer: "adamw", Gradients: "fp32"}
		w.Overlap = rapid.Bool().Draw(t, "overlap")
		w.SumOnce = w.Overlap && rapid.Bool().Draw(t, "once")
		g := graphOf(t, w, orderOf(t, "ddp", w))
		require.NoError(t, w.Staged().Check(g))
		gathered, scattered, held := map[int]int64{}, map[int]int64{}, int64(0) // by members
		for _, l := range w.Network.Layers {
			of := map[int]int64{} // parameters by the devices that have the same
			for _, tensor := range l.Params {
				if tensor.Expert {
					of[replicas/e] += tensor.Shape.Elements()
				} else {
					of[replicas] += tensor.Shape.Elements()
				}
			}
			for n, parameters := range of {
				stored := (parameters + int64(n) - 1) / int64(n) * int64(n)
				gathered[n] += 2 * int64(len(samples)) * 2 * stored
				sums := int64(len(samples))
				if w.SumOnce {
					sums = 1
				}
				scattered[n] += sums * 4 * stored
				held += (2 + 4 + 12) * stored / int64(n) // bf16, and in fp32 the gradient, the weight and two moments
			}
			if w.SumOnce {
				held += 4 * of[replicas]
				held += 4 * of[replicas/e]
			}
		}
		require.Equal(t, held, memory.Persistent(w.Staged(), replicas)[0])
		for _, task := range g.Tasks() {
			if task.Rank != 5 || task.Kind != graph.AllGather && task.Kind != graph.ReduceScatter {
				continue
			}
			n := g.Members(task.Peer)
			if task.Kind == graph.AllGather {
				gathered[n] -= task.Bytes
			} else {
				scattered[n] -= task.Bytes
			}
			if n == replicas/e {
				for i, r := range g.Groups[task.Peer] {
					require.EqualValues(t, i*e, r-task.Rank%int32(e), "the devices with the same experts")
				}
			}
		}
		zero := map[int]int64{replicas: 0, replicas / e: 0}
		require.Equal(t, zero, gathered)
		require.Equal(t, zero, scattered)
		for _, peak := range ledger(t, simulate(t, w, machine(), g)) {
			require.Positive(t, peak)
		}
	})
}

// All devices together hold as much, however many share the experts: only the padding differs.
func TestShardedExpertsHold(t *testing.T) {
	all := func(e int) (sum int64) {
		w := sharded(mixture(t, group.Group{Expert: e}), 8, 1)
		for _, bytes := range memory.Persistent(w.Staged(), 8) {
			sum += bytes
		}
		return sum
	}
	for _, e := range []int{2, 4, 8} {
		require.InDelta(t, all(1), all(e), 16*8*2*6, "at most 7 parameters for each of two flats in 6 layers")
	}
}

// With an expert group of one nothing changes, to the byte.
func TestShardedExpertsOfOne(t *testing.T) {
	of := func(g group.Group) (costs []graph.Cost) {
		w := synced(sharded(mixture(t, g), 4, 1, 1), 0, true)
		wired := graphOf(t, w, orderOf(t, "ddp", w))
		prices, err := costmodel.StepCosts(machine(), w.Staged(), wired)
		require.NoError(t, err)
		for _, task := range wired.Tasks() {
			costs = append(costs, prices.Task(&task))
		}
		return costs
	}
	require.Equal(t, of(group.Group{}), of(group.Group{Expert: 1, ExpertTensor: 1}))
}
