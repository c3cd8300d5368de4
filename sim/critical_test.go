package sim_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/sim"
)

// GPipe over two ranks. Other paths are as long, over 0F1 and over 1B1: where
// a dependency and the task before it on the stream end at once, the latter is
// the cause.
func TestCriticalPath(t *testing.T) {
	trace := run(t, build(t, "gpipe", 2, 2), uniform(3, 7, 1))
	var names []string
	for _, i := range sim.CriticalPath(trace) {
		names = append(names, trace.Graph.Task(i).String())
	}
	require.Equal(t, []string{"0F0", "0SEND_F0", "1F0", "1F1", "1B0", "1SEND_B0", "0B0", "0B1"}, names)
}

// queues reports whether a waits behind b, on its stream or for a link.
func (r random) queues(a, b int32) bool {
	if r.Classes[a].Stream == r.Classes[b].Stream {
		return a > b
	}
	link := r.cost[a].Link
	return link > 0 && !r.Classes[a].Kind.Collective() && link == r.cost[b].Link
}

// together lists a task and, for a fused collective, the same call on the
// other ranks of its group.
func (r random) together(a int32) []int32 {
	if !r.Classes[a].Kind.Collective() {
		return []int32{a}
	}
	calls := map[int][]int32{} // by number
	made := map[int32]int{}    // by rank, the calls of this group so far
	mine := 0
	for i, task := range r.Tasks() {
		if !task.Kind.Collective() || task.Peer != r.Classes[a].Peer {
			continue
		}
		if i == a {
			mine = made[task.Rank]
		}
		calls[made[task.Rank]] = append(calls[made[task.Rank]], i)
		made[task.Rank]++
	}
	return calls[mine]
}

// The path starts at zero and ends at the makespan; each task of it starts
// when the one before it ends, if it stood in a queue behind it, or when its
// delay has passed, if it depends on it.
func TestCriticalPathIsAChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, false)
		trace := run(t, r.Graph, r.costs())
		path := sim.CriticalPath(trace)
		require.NotEmpty(t, path)
		require.Zero(t, trace.Span(path[0]).Start)
		require.Equal(t, trace.End(), trace.Span(path[len(path)-1]).End)
		for k, b := range path[1:] {
			a := path[k]
			start, end := trace.Span(b).Start, trace.Span(a).End
			explained := false
			for _, call := range r.together(b) {
				explained = explained || start == end && r.queues(call, a) ||
					start == end+r.cost[a].Delay && slices.Contains(r.Deps(call), a)
			}
			require.True(t, explained, "%v starts %d after %v of %d", r.Classes[b], start, r.Classes[a], end)
		}
	})
}
