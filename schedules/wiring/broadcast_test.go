package wiring_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// The parameters of two buckets reach the second replica before its forward, on the
// stream and in the group of the gradients.
func TestBroadcast(t *testing.T) {
	p := ddp(t, 2, 1, 30, 20)
	p.Sync.Broadcast = [][]int64{{60, 40}}
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0B0 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0BROADCAST 0BROADCAST 0ALL_REDUCE 0ALL_REDUCE`), strings.Split(synchronised(g), "1 compute")[0])
	trace := ordertest.Relax(t, g, func(*graph.Task) time.Duration { return 1 })
	require.EqualValues(t, 2, trace.Startup())
	ranks := graph.Summarize(trace).Ranks
	require.EqualValues(t, 60+40, ranks[0].SentBytes-ranks[1].SentBytes, "the last passes nothing on")

	p.Shape.Replicas = 1
	require.NotContains(t, synchronised(ordertest.Graph(t, p)), "BROADCAST")
	p = fsdp(t, 2, 1, true)
	p.Sync.Broadcast = make([][]int64, 3)
	_, err := p.Graph()
	require.ErrorContains(t, err, "may not be sharded")
}

// Whatever is broadcast, nothing is computed before on that rank, and a later step,
// which has none of it, takes no longer than the rest of the first; where all ranks
// begin together it takes as long.
func TestStartupIsAllThatIsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ordertest.Draw(t)
		p.Shape.Replicas = rapid.IntRange(2, 3).Draw(t, "replicas that broadcast")
		p.Sync = wiring.Sync{Overlap: rapid.Bool().Draw(t, "overlap")}
		for range len(p.Boundaries) + 1 {
			p.Sync.Buckets = append(p.Sync.Buckets, rapid.SliceOfN(rapid.Int64Range(1, 9), 0, 3).Draw(t, "buckets"))
		}
		times := drawTimes(t)
		later := ordertest.Relax(t, ordertest.Graph(t, p), times)
		require.Zero(t, later.Startup())
		p.Sync.Broadcast = p.Sync.Buckets
		g := ordertest.Graph(t, p)
		first := ordertest.Relax(t, g, times)
		ends := make([]graph.Span, g.Ranks())
		for i, task := range g.Tasks() {
			switch {
			case task.Kind == graph.Broadcast:
				ends[task.Rank] = first.Span(i)
			case task.Kind.Compute():
				require.GreaterOrEqual(t, first.Span(i).Start, ends[task.Rank].End)
			}
		}
		rest := first.End() - first.Startup()
		require.GreaterOrEqual(t, rest, later.End())
		if p.Shape.Ranks == 1 {
			require.Equal(t, later.End(), rest)
		}
	})
}
