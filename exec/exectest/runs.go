package exectest

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/exec/cluster"
	"psim/schedules"
	"psim/schedules/graph"
)

// Options opens the devices that tests train on: those of the backend go or of the one that the
// environment names (make xla).
func Options() backend.Options {
	return backend.Options{Backend: os.Getenv("PSIM_BACKEND"), Oversubscribe: true}
}

// Wired builds the graph of a schedule, with gradients of two buckets and an optimizer.
func Wired(t require.TestingT, name string, shape graph.Shape) *graph.Graph {
	s, err := schedules.Find(name)
	require.NoError(t, err)
	whole, err := s.Pipeline(shape, nil)
	require.NoError(t, err)
	for range whole.Placement.First {
		whole.Sync.Buckets = append(whole.Sync.Buckets, []int64{8, 4})
	}
	whole.Optimizer = true
	g, err := whole.Graph()
	require.NoError(t, err)
	return g
}

// ShuffleStreams puts a graph's streams, and so the goroutines that run them, in a random
// order.
func ShuffleStreams(g *graph.Graph, seed uint64) {
	shuffled := *g
	shuffled.Streams, shuffled.Classes, shuffled.Columns = slices.Clone(g.Streams), nil, graph.Columns{}
	places := rand.New(rand.NewPCG(seed, seed)).Perm(len(g.Streams))
	for s, place := range places {
		shuffled.Streams[place] = g.Streams[s]
	}
	for i, task := range g.Tasks() {
		task.Stream = int32(places[task.Stream])
		shuffled.Add(task, g.Deps(i)...)
	}
	*g = shuffled
}

// CheckRules holds a trace to the rules of a schedule: a task begins after everything that it
// depends on, and after the task before it on its stream.
func CheckRules(t require.TestingT, trace *graph.Trace) {
	g := trace.Graph
	start, order := g.ByStream()
	for s := range g.Streams {
		for n := start[s]; n < start[s+1]; n++ {
			i := order[n]
			require.LessOrEqual(t, trace.Span(i).Start, trace.Span(i).End)
			if n > start[s] {
				require.LessOrEqual(t, trace.Span(order[n-1]).End, trace.Span(i).Start)
			}
			for _, d := range g.Deps(i) {
				require.LessOrEqual(t, trace.Span(d).End, trace.Span(i).Start,
					"%s before %s", g.Describe(i), g.Describe(d))
			}
		}
	}
}

// Peaks returns the peak memory of every rank.
func Peaks(trace *graph.Trace) (list []int64) {
	for _, r := range graph.Summarize(trace).Ranks {
		list = append(list, r.PeakMemory)
	}
	return list
}

// Worlds joins n processes, which are goroutines here, over sockets.
func Worlds(t require.TestingT, n int, o cluster.Options) []*cluster.World {
	invitation, err := cluster.Invite(n)
	require.NoError(t, err)
	list, errs := make([]*cluster.World, n), make([]error, n)
	Each(n, func(k int) { list[k], errs[k] = invitation.Join(context.Background(), k, o) })
	require.Equal(t, make([]error, n), errs)
	return list
}

// Each calls what n times at the same time, and waits for all calls.
func Each(n int, what func(k int)) {
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() { what(k) })
	}
	all.Wait()
}
