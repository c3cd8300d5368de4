package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/stages"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// dualPipe cuts a network for DualPipe over four ranks.
func dualPipe(t tester, replicas int) (stages.Workload, wiring.Pipeline) {
	w := workload(t, smallGPT(t), graph.InOrder(4).First, 2, 2, 2, 2, 2, 2, 2, 2)
	w.Replicas, w.Placement = replicas, graph.TwoCopies(w.Placement.First, []int32{3, 2, 1, 0}, len(w.Samples))
	s, err := schedules.Find("dualpipe")
	require.NoError(t, err)
	p, err := s.Pipeline(shape(w), nil)
	require.NoError(t, err)
	w.Bucket, w.Overlap = 5000, true
	w.Staged().Fill(&p)
	p.Optimizer = true
	return w, p
}

// Every rank holds two stages, whose gradients are summed with the rank that
// holds the same two; the table that embedding and head share is there once per
// rank. Time and memory are symmetric, with replicas too, and the ledger ends
// where it began.
func TestSecondCopies(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		w, p := dualPipe(t, replicas)
		g, err := p.Graph()
		require.NoError(t, err)
		require.NoError(t, g.Validate())
		whole := w.Network.Parameters()
		require.Equal(t, []wiring.Tied{
			{Stages: []int{0, 3}, Bytes: 4 * (parameters(w, 0) + parameters(w, 3))},
			{Stages: []int{1, 2}, Bytes: 4 * (parameters(w, 1) + parameters(w, 2))},
		}, tiedSums(w))
		require.Equal(t, whole, parameters(w, 0)+parameters(w, 1)+parameters(w, 2)+parameters(w, 3))
		trace := simulate(t, w, machine(), g)
		peaks := ledger(t, trace)
		s := graph.Summarize(trace)
		var persistent int64
		for r, rank := range s.Ranks {
			mirror := s.Ranks[r/4*4+3-r%4]
			require.Equal(t, mirror.Compute, rank.Compute)
			require.Equal(t, peaks[mirror.Rank], peaks[r])
			persistent += rank.PersistentMemory
		}
		state := w.Training.State()
		require.Equal(t, 2*int64(replicas)*whole*(state.Parameter+state.Gradient+state.Optimizer), persistent)
	}
}

// With a sharded optimizer the two copies of a stage each sum over their replicas and
// scatter, and then add their shares: half of the bytes with two replicas. What lasts is
// both copies' parameters and gradients, and a share of the optimizer for each.
func TestSecondCopiesSharded(t *testing.T) {
	w, _ := dualPipe(t, 2)
	s, err := schedules.Find("dualpipe")
	require.NoError(t, err)
	for _, overlap := range []bool{true, false} {
		w.Zero, w.Overlap = 1, overlap
		p, err := s.Pipeline(shape(w), nil)
		require.NoError(t, err)
		w.Staged().Fill(&p)
		p.Optimizer = true
		g, err := p.Graph()
		require.NoError(t, err)
		require.NoError(t, g.Validate())
		pair := parameters(w, 0) + parameters(w, 3)
		require.Equal(t, 4*pair/2, tiedSums(w)[0].Bytes)
		scattered := map[int]int{} // by rank, what has been scattered before the pair's sum
		for _, task := range g.Tasks() {
			switch {
			case task.Kind == graph.ReduceScatter:
				scattered[int(task.Rank)]++
			case task.Kind == graph.AllReduce:
				require.Positive(t, scattered[int(task.Rank)])
				delete(scattered, int(task.Rank))
			}
		}
		trace := simulate(t, w, machine(), g)
		ledger(t, trace)
		var persistent int64
		for _, rank := range graph.Summarize(trace).Ranks {
			persistent += rank.PersistentMemory
		}
		state := w.Training.State()
		require.Equal(t, 2*w.Network.Parameters()*(2*state.Parameter+2*state.Gradient+state.Optimizer), persistent)
	}
}
