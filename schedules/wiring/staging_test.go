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

// Every collective is between its copies, which move what the rank brings and what it gets.
func TestStaging(t *testing.T) {
	p := ddp(t, 2, 1, 30, 20)
	p.Sync.Staging = true
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0B0 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0TO_HOST 0ALL_REDUCE 0FROM_HOST 0TO_HOST 0ALL_REDUCE 0FROM_HOST`),
		strings.Split(synchronised(g), "1 compute")[0])
	require.EqualValues(t, 2*(30+20), copied(g))

	units := fsdp(t, 2, 1, true)
	units.Sync.Staging, units.Sync.NoReduceScatter = true, true
	g = ordertest.Graph(t, units)
	streams := strings.Split(synchronised(g), "1 compute")[0]
	require.Contains(t, streams, "0 gradients: 0TO_HOST0 0ALL_GATHER0 0FROM_HOST0 2TO_HOST0 2ALL_GATHER0 2FROM_HOST0")
	require.EqualValues(t, 2*(40/2+40)+2*(80/2+80)+2*(20+60), copied(g), "a rank brings its part to a gather")
}

// copied counts the bytes that the first rank copies to and from its host.
func copied(g *graph.Graph) (bytes int64) {
	for _, task := range g.Tasks() {
		if task.Kind.Staging() && task.Rank == 0 {
			bytes += task.Bytes
		}
	}
	return bytes
}

// drawSums draws a pipeline whose gradients are summed in buckets.
func drawSums(t *rapid.T) wiring.Pipeline {
	p := ordertest.Draw(t)
	p.Shape.Replicas = rapid.IntRange(2, 3).Draw(t, "replicas that sum")
	p.Sync.Overlap = rapid.Bool().Draw(t, "overlap")
	p.Sync.NoReduceScatter = true
	for range len(p.Boundaries) + 1 {
		p.Sync.Buckets = append(p.Sync.Buckets, rapid.SliceOfN(rapid.Int64Range(1, 9), 0, 3).Draw(t, "buckets"))
	}
	if rapid.Bool().Draw(t, "broadcast") {
		p.Sync.Broadcast = p.Sync.Buckets
	}
	return p
}

// Copies only add: with copies that take no time every other task runs when it ran without them,
// and with others no step is shorter. Without gathers the bytes on the link to the host are twice
// those of the tensors of all collectives.
func TestStagingOnlyAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]func(*rapid.T) wiring.Pipeline{drawSums, drawUnits}).Draw(t, "kind")(t)
		times := drawTimes(t)
		plain := ordertest.Relax(t, ordertest.Graph(t, p), times)
		p.Sync.Staging = true
		sameSize(t, p)
		g := ordertest.Graph(t, p)
		require.NoError(t, g.Validate())
		free := ordertest.Relax(t, g, func(task *graph.Task) time.Duration {
			if task.Kind.Staging() {
				return 0
			}
			return times(task)
		})
		var spans []graph.Span
		var tensors, gathers, copies int64
		for i, task := range g.Tasks() {
			switch {
			case task.Kind.Staging():
				copies += task.Bytes
				continue
			case task.Kind == graph.AllGather:
				n := int64(g.Members(task.Peer))
				gathers += task.Bytes + (task.Bytes+n-1)/n
			case task.Kind.Collective():
				tensors += task.Bytes
			}
			spans = append(spans, free.Span(i))
		}
		require.Equal(t, plain.Spans, spans)
		require.Equal(t, 2*tensors+gathers, copies)
		require.GreaterOrEqual(t, ordertest.Relax(t, g, times).End(), plain.End())
	})
}
