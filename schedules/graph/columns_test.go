package graph_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// along lists the tasks of a stream, forwards and backwards.
func along(g *graph.Graph, stream int32) (there, back []int32) {
	there, back = []int32{}, []int32{}
	for i := g.First(stream); i != graph.None; i = g.Next(i) {
		there = append(there, i)
	}
	for i := g.Last(stream); i != graph.None; i = g.Before(i) {
		back = append(back, i)
	}
	slices.Reverse(back)
	return there, back
}

// The next task of a stream may be further away than a row can say.
func TestNextIsFar(t *testing.T) {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 1, Microbatches: 1}}
	near, far := g.AddStream(0, "near"), g.AddStream(0, "far")
	want := []int32{}
	for _, between := range []int{0, 1, 1<<16 - 2, 1<<16 - 1, 1 << 16, 200_000} {
		for range between {
			g.Add(graph.Task{Stream: near, Peer: graph.None})
		}
		want = append(want, g.Add(graph.Task{Stream: far, Peer: graph.None}))
	}
	there, back := along(g, far)
	require.Equal(t, want, there)
	require.Equal(t, want, back)
	require.EqualValues(t, graph.None, g.First(7))
	require.EqualValues(t, graph.None, g.Last(7))
}

// Streams are gone along as ByStream lists their tasks, and a graph with a class for every task
// is the same graph.
func TestStreamsOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := ordertest.Graph(t, ordertest.Draw(t))
		apart := g.Distinct()
		require.Same(t, apart, apart.Distinct())
		require.NoError(t, apart.Validate())
		require.Equal(t, ordertest.Dump(g), ordertest.Dump(apart))
		require.Len(t, apart.Classes, g.Len())
		total := 0
		for _, n := range g.Counts() {
			total += n
		}
		require.Equal(t, g.Len(), total)
		start, order := g.ByStream()
		for s := range g.Streams {
			there, back := along(g, int32(s))
			require.Equal(t, order[start[s]:start[s+1]], there)
			require.Equal(t, there, back)
		}
	})
}

// What a task waits for is one task or a list; the last word counts.
func TestWait(t *testing.T) {
	g := twoRanks()
	for _, list := range [][]int32{nil, {0}, {2, 0}, {4}, {3, 2, 1}, nil} {
		g.Wait(4, list...)
		require.Equal(t, list, g.Deps(4))
	}
	g.Wait(4, graph.None, 3, graph.None, 1)
	require.Equal(t, []int32{3, 1}, g.Deps(4))
}

// A barrier stands for its tasks on other streams that are not in the list before, also in other replicas.
func TestBarrier(t *testing.T) {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 2, Microbatches: 1, Replicas: 2}}
	for range 2 {
		g.AddStream(0, "a")
		g.AddStream(1, "b")
	}
	for _, stream := range []int32{0, 1, 0, 1} {
		g.Add(graph.Task{Rank: stream, Stream: stream, Stage: graph.None, Peer: graph.None})
	}
	g.Barriers = [][]int32{{}, {0, 1, 2}}
	g.Wait(1, graph.Barrier(0))
	require.Empty(t, g.Deps(1))
	g.Wait(3, 2, graph.None, graph.Barrier(1))
	require.Equal(t, []int32{2, 0}, g.Deps(3))
	g.Wait(2, graph.Barrier(1))
	require.Equal(t, []int32{1}, g.Deps(2))
	g.Classes = append(g.Classes, g.Classes...)
	for i := range g.Classes[4:] {
		g.Classes[4+i].Stream += 2
	}
	g.Repeat(2, 4, 2)
	require.Empty(t, g.Deps(5))
	require.Equal(t, []int32{6, 4}, g.Deps(7))
	require.Equal(t, []int32{5}, g.Deps(6))
}
