package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
)

// twoRanks is a small well-formed graph: a forward on each of two ranks, a
// message between them and an all-reduce of both. Its tasks are 0F0 (0),
// 0SEND_F0 (1), all-reduce (2); 1F0 (3), all-reduce (4).
func twoRanks() *graph.Graph {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 2, Microbatches: 1}, Placement: graph.Placement{First: []int32{0, 1}}}
	group := g.AddGroup([]int32{0, 1})
	for rank := range int32(2) {
		compute, sends := g.AddStream(rank, "compute"), g.AddStream(rank, "send")
		f := g.Add(graph.Task{Kind: graph.Forward, Rank: rank, Stream: compute, Stage: rank, Peer: graph.None})
		if rank == 0 {
			g.Add(graph.Task{Kind: graph.SendForward, Rank: 0, Stream: sends, Peer: 1, Bytes: 8}, f)
		}
		g.Add(graph.Task{Kind: graph.AllReduce, Rank: rank, Stream: compute, Stage: graph.None, Microbatch: graph.None, Peer: group, Bytes: 5}, f, graph.None)
	}
	return g
}

func TestValidateGraph(t *testing.T) {
	require.NoError(t, twoRanks().Validate())
	require.NoError(t, (&graph.Graph{}).Validate())
	for _, c := range []struct {
		want  string
		spoil func(*graph.Graph)
	}{
		{"task 0, 0Kind(99)0: no such kind of task", func(g *graph.Graph) { g.Classes[0].Kind = 99 }},
		{"task 0, 0F0: rank 2 is outside 0 to 1", func(g *graph.Graph) { g.Classes[0].Rank = 2 }},
		{"task 0, 0F0: rank -1 is outside 0 to 1", func(g *graph.Graph) { g.Classes[0].Rank = -1 }},
		{"task 0, 0F0: stream 4 does not exist", func(g *graph.Graph) { g.Classes[0].Stream = 4 }},
		{"task 0, 0F0: its stream belongs to rank 1, the task to rank 0", func(g *graph.Graph) { g.Classes[0].Stream = 2 }},
		{"task 1, 0SEND_F0: -1 bytes", func(g *graph.Graph) { g.Classes[1].Bytes = -1 }},
		{"task 0, 2F0: stage 2 is outside 0 to 1", func(g *graph.Graph) { g.Classes[0].Stage = 2 }},
		{"task 0, -2F0: stage -2 is outside 0 to 1", func(g *graph.Graph) { g.Classes[0].Stage = -2 }},
		{"task 0, 0F1: microbatch 1 is outside 0 to 0", func(g *graph.Graph) { g.Classes[0].Microbatch = 1 }},
		{"task 1, 0SEND_F0: a message from rank 0 to rank 0", func(g *graph.Graph) { g.Classes[1].Peer = 0 }},
		{"task 1, 0SEND_F0: a message from rank 0 to rank 2", func(g *graph.Graph) { g.Classes[1].Peer = 2 }},
		{"task 1, 0SEND_F0: a message from rank 0 to rank -1", func(g *graph.Graph) { g.Classes[1].Peer = graph.None }},
		{"task 2, ALL_REDUCE.0: group 1 does not exist", func(g *graph.Graph) { g.Classes[2].Peer = 1 }},
		{"task 1, 0SEND_F0: it depends on task 9", func(g *graph.Graph) { g.Wait(1, 9) }},
		{"task 1, 0SEND_F0: it depends on task 1", func(g *graph.Graph) { g.Wait(1, 1) }},
		{"task 1, 0SEND_F0: it depends on task -2", func(g *graph.Graph) { g.Wait(1, -2, 0) }},
		{"task 3 is of class 5; there are 5", func(g *graph.Graph) { g.Rows[3].Class = 5 }},
		{"group 0: it has no ranks", func(g *graph.Graph) { g.Groups[0] = nil }},
		{"group 1: it has no ranks", func(g *graph.Graph) { g.AddGroup(nil) }},
		{"group 0: rank 1 is in it twice", func(g *graph.Graph) { g.Groups[0] = []int32{0, 1, 1} }},
		{"group 0: rank 2 is outside 0 to 1", func(g *graph.Graph) { g.Groups[0] = []int32{0, 2} }},
		{"rank 1 calls a collective of group 0, which is ranks [0]", func(g *graph.Graph) { g.Groups[0] = []int32{0} }},
		{"group 0: rank 0 calls 0 collectives, rank 1 calls 1", func(g *graph.Graph) { g.Classes[2].Kind = graph.Optimizer }},
		{"group 0, collective 0: rank 0 calls ALL_REDUCE of 5 bytes, rank 1 calls ALL_GATHER of 5 bytes", func(g *graph.Graph) { g.Classes[4].Kind = graph.AllGather }},
		{"group 0, collective 0: rank 0 calls ALL_REDUCE of 5 bytes, rank 1 calls ALL_REDUCE of 6 bytes", func(g *graph.Graph) { g.Classes[4].Bytes = 6 }},
		{"group 0: rank 0 calls its collectives on streams 0 and 1; their order is known on one stream only", func(g *graph.Graph) {
			again := g.Task(2)
			again.Stream = 1
			g.Add(again)
		}},
	} {
		g := twoRanks()
		c.spoil(g)
		require.EqualError(t, g.Validate(), c.want)
	}
}

func TestByStream(t *testing.T) {
	g := twoRanks()
	start, order := g.ByStream()
	require.Equal(t, []int32{0, 2, 3, 5, 5}, start)
	require.Equal(t, []int32{0, 2, 1, 3, 4}, order)
}
