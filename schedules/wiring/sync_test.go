package wiring_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/golden"
	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// synchronised lists the tasks of every stream that carries no messages.
func synchronised(g *graph.Graph) string {
	start, order := g.ByStream()
	var b strings.Builder
	for s, stream := range g.Streams {
		if strings.HasPrefix(stream.Name, "send") {
			continue
		}
		b.WriteString(fmt.Sprintf("%d %s:", stream.Rank, stream.Name))
		for _, i := range order[start[s]:start[s+1]] {
			b.WriteString(" " + g.Task(i).String())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func ddp(t rapid.TB, replicas, microbatches int, buckets ...int64) wiring.Pipeline {
	p := ordertest.Pipeline(t, "ddp", 1, microbatches)
	p.Shape.Replicas, p.Optimizer = replicas, true
	p.Sync.Buckets = [][]int64{buckets}
	return p
}

// One all-reduce per tensor after the backward, then the average, then the
// optimizer, on both ranks.
func TestDDP(t *testing.T) {
	g := ordertest.Graph(t, ddp(t, 2, 1, 30, 20, 10))
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0B0 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0ALL_REDUCE 0ALL_REDUCE 0ALL_REDUCE
		1 compute: 0F0 0B0 AVERAGE.0 OPTIMIZER.0
		1 gradients: 0ALL_REDUCE 0ALL_REDUCE 0ALL_REDUCE`), synchronised(g))
	require.Equal(t, [][]int32{{0, 1}}, g.Groups)
	golden.Equal(t, "ddp_graph.golden", ordertest.Dump(g))
	for _, rank := range []int32{0, 1} {
		var bytes []int64
		for _, task := range g.Tasks() {
			if task.Kind == graph.AllReduce && task.Rank == rank {
				require.Equal(t, int(task.Part), len(bytes))
				require.Zero(t, task.Peer, "the group")
				bytes = append(bytes, task.Bytes)
			}
			if task.Kind == graph.Average {
				require.Equal(t, int64(60), task.Bytes)
			}
		}
		require.Equal(t, []int64{30, 20, 10}, bytes)
	}
}

// Only the last backward is sliced, and a bucket leaves after its slice.
func TestOverlap(t *testing.T) {
	p := ddp(t, 2, 2, 30, 20)
	p.Sync.Overlap = true
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0B0 0F1 0B1 0B1.1 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0ALL_REDUCE 0ALL_REDUCE
		1 compute: 0F0 0B0 0F1 0B1 0B1.1 AVERAGE.0 OPTIMIZER.0
		1 gradients: 0ALL_REDUCE 0ALL_REDUCE`), synchronised(g))
	golden.Equal(t, "overlap_graph.golden", ordertest.Dump(g))
}

// With the backward in halves it is the last W that completes the gradients,
// and the input gradient leaves before it.
func TestOverlapOfHalves(t *testing.T) {
	p := ordertest.Pipeline(t, "gpipe", 2, 1)
	p.Order = ordertest.Split(p.Order)
	p.Shape.Replicas = 2
	p.Sync = wiring.Sync{Buckets: [][]int64{{1, 2}, {3, 4, 5}}, Overlap: true}
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0I0 0W0 0W0.1 AVERAGE.0
		0 gradients: 0ALL_REDUCE 0ALL_REDUCE
		1 compute: 1F0 1I0 1W0 1W0.1 1W0.2 AVERAGE.0
		1 gradients: 1ALL_REDUCE 1ALL_REDUCE 1ALL_REDUCE
		2 compute: 0F0 0I0 0W0 0W0.1 AVERAGE.0
		2 gradients: 0ALL_REDUCE 0ALL_REDUCE
		3 compute: 1F0 1I0 1W0 1W0.1 1W0.2 AVERAGE.0
		3 gradients: 1ALL_REDUCE 1ALL_REDUCE 1ALL_REDUCE`), synchronised(g))
	require.Equal(t, [][]int32{{0, 2}, {1, 3}}, g.Groups)
}

// A sliced backward sends its gradient only after its last slice.
func TestOverlapInAPipeline(t *testing.T) {
	p := ordertest.Pipeline(t, "1f1b", 2, 1)
	p.Shape.Replicas, p.Optimizer = 2, true
	p.Sync = wiring.Sync{Buckets: [][]int64{{1, 2}, {3, 4}}, Overlap: true}
	golden.Equal(t, "overlap_pipeline_graph.golden", ordertest.Dump(ordertest.Graph(t, p)))
}

func TestSharded(t *testing.T) {
	p := ddp(t, 3, 1, 30, 20)
	p.Sync.Sharded, p.Sync.Parameters = true, [][]int64{{40}}
	g := ordertest.Graph(t, p)
	golden.Equal(t, "sharded_graph.golden", ordertest.Dump(g))
	require.Equal(t, 3, strings.Count(synchronised(g), "gradients: 0REDUCE_SCATTER 0REDUCE_SCATTER 0ALL_GATHER\n"))
	for _, task := range g.Tasks() {
		if task.Kind == graph.AllGather {
			require.Equal(t, int64(40), task.Bytes)
		}
	}
	p.Optimizer = false
	require.NotContains(t, synchronised(ordertest.Graph(t, p)), "GATHER", "nothing was updated")
}

// An embedding on stage 0 that is also the output layer on stage 2, and a
// parameter whose copies share a rank, which needs no sum.
func TestTied(t *testing.T) {
	p := ordertest.Pipeline(t, "gpipe", 3, 1, 0, 1, 1, 2)
	p.Shape.Replicas, p.Optimizer = 2, true
	p.Tied = []wiring.Tied{{Stages: []int{0, 3}, Bytes: 8}, {Stages: []int{1, 2}, Bytes: 9}}
	p.Sync.Buckets = [][]int64{{10}, {11}, {12}, {13}}
	g := ordertest.Graph(t, p)
	golden.Equal(t, "tied_graph.golden", ordertest.Dump(g))
	var tied []int64
	for _, task := range g.Tasks() {
		if task.Kind == graph.AllReduce && task.Stage == graph.None {
			tied = append(tied, int64(task.Rank), task.Bytes)
			require.Contains(t, g.Groups[task.Peer], task.Rank)
			require.Len(t, g.Groups[task.Peer], 2)
		}
	}
	require.Equal(t, []int64{0, 8, 2, 8, 3, 8, 5, 8}, tied)
}

// One replica has nothing to sum, and a stage may have no gradients.
func TestNothingToSum(t *testing.T) {
	require.Equal(t, "0 compute: 0F0 0B0 OPTIMIZER.0\n", synchronised(ordertest.Graph(t, ddp(t, 1, 1, 30))))

	p := ddp(t, 2, 1)
	p.Sync.Overlap = true
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0B0 AVERAGE.0 OPTIMIZER.0
		1 compute: 0F0 0B0 AVERAGE.0 OPTIMIZER.0`), synchronised(ordertest.Graph(t, p)))
}
