package costmodel_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// drawShards draws a workload whose replicas have unequal shares.
func drawShards(t *rapid.T) (stages.Workload, costmodel.Machine) {
	w, m := drawWorkload(t)
	w.Replicas = rapid.IntRange(2, 4).Draw(t, "unequal replicas")
	w.Shards = rapid.SliceOfN(rapid.Int64Range(1, 9), w.Replicas, w.Replicas).Draw(t, "shards")
	w.Samples = slices.Repeat([]int64{slices.Max(w.Shards)}, 2)
	w.Bucket, w.Overlap = 100_000, rapid.Bool().Draw(t, "overlap")
	return w, m
}

// A replica's tasks cost what they would if all had its samples, in time and memory;
// what replicas do together does not depend on samples.
func TestShardsCostByReplica(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m := drawShards(t)
		o := orderOf(t, "1f1b", w)
		g := graphOf(t, w, o)
		costs, err := costmodel.StepCosts(m, w.Staged(), g)
		require.NoError(t, err)
		for replica, n := range w.Shards {
			same := w
			same.Shards, same.Samples = nil, []int64{n, n}
			equal := graphOf(t, same, o)
			want, err := costmodel.StepCosts(m, same.Staged(), equal)
			require.NoError(t, err)
			require.Equal(t, equal.Len(), g.Len())
			for i, task := range g.Tasks() {
				if int(task.Rank)/g.Shape.Ranks == replica || task.Microbatch == graph.None {
					require.Equal(t, equal.Task(i), task)
					require.Equal(t, want.Task(&task), costs.Task(&task), g.Describe(i))
				}
			}
		}
	})
}

// Where nothing shares a link, the replica with the most samples decides: a step is as long as if all
// had as many, in which the others idle for what they compute less. Their peaks may still be higher:
// whole gradients wait for the slowest replica, and messages arrive at other times.
func TestLargestShardDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m := drawShards(t)
		o := orderOf(t, "1f1b", w)
		alone := func(w stages.Workload) graph.Summary {
			g := graphOf(t, w, o)
			costs, err := costmodel.StepCosts(m, w.Staged(), g)
			require.NoError(t, err)
			costs.Ports = nil
			return graph.Summarize(run(t, g, costs))
		}
		got := alone(w)
		all := w
		all.Shards = nil
		slow := alone(all)
		require.Equal(t, slow.StepTime, got.StepTime)
		var samples int64
		for replica, n := range w.Shards {
			samples += 2 * n
			for r := range got.Ranks[2*replica : 2*replica+2] {
				rank, like := got.Ranks[2*replica+r], slow.Ranks[2*replica+r]
				if n == w.Samples[0] {
					require.Equal(t, like.Compute, rank.Compute)
					require.Equal(t, like.PeakMemory, rank.PeakMemory)
				}
				require.LessOrEqual(t, rank.Compute, like.Compute)
			}
		}
		require.Equal(t, samples, w.Total())
	})
}
