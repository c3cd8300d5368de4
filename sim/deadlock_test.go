package sim_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
	"psim/sim"
)

// oneStream is GPipe over three ranks with two microbatches, by hand: every
// rank has one in-order stream for all its messages. sends is the order of the
// middle rank's messages.
func oneStream(t *testing.T, sends string) *graph.Graph {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 3, Microbatches: 2}, Placement: graph.Placement{First: []int32{0, 1, 2}}}
	ids := map[string]int32{}
	rows := []string{
		"0F0 0F1 0B0 0B1", "0SEND_F0 0SEND_F1",
		"1F0 1F1 1B0 1B1", sends,
		"2F0 2F1 2B0 2B1", "2SEND_B0 2SEND_B1",
	}
	for _, names := range rows {
		for _, name := range strings.Fields(names) {
			ids[name] = int32(len(ids))
		}
	}
	after := map[string][]string{}
	for _, m := range []string{"0", "1"} {
		for _, pair := range [][2]string{
			{"0F", "0SEND_F"}, {"0SEND_F", "1F"}, {"1F", "1SEND_F"}, {"1SEND_F", "2F"},
			{"2B", "2SEND_B"}, {"2SEND_B", "1B"}, {"1B", "1SEND_B"}, {"1SEND_B", "0B"},
		} {
			after[pair[1]+m] = append(after[pair[1]+m], pair[0]+m)
		}
	}
	for i, names := range rows {
		rank := int32(i / 2)
		stream := g.AddStream(rank, []string{"compute", "messages"}[i%2])
		for _, name := range strings.Fields(names) {
			kind, err := graph.ParseKind(strings.Trim(name, "012"))
			require.NoError(t, err)
			task := graph.Task{Kind: kind, Rank: rank, Stream: stream, Stage: rank, Microbatch: int32(name[len(name)-1] - '0'), Peer: graph.None}
			if kind == graph.SendForward {
				task.Peer = rank + 1
			} else if kind == graph.SendBackward {
				task.Peer = rank - 1
			}
			var deps []int32
			for _, d := range after[name] {
				deps = append(deps, ids[d])
			}
			require.Equal(t, ids[name], g.Add(task, deps...))
		}
	}
	require.NoError(t, g.Validate())
	return g
}

// Messages must leave in the order in which their rank computes. Microbatch by
// microbatch, the forward of microbatch 1 waits behind the gradient of
// microbatch 0, for which rank 2 wants that forward first.
func TestSendsByMicrobatchDeadlock(t *testing.T) {
	trace := run(t, oneStream(t, "1SEND_F0 1SEND_F1 1SEND_B0 1SEND_B1"), uniform(1, 2, 0))
	require.EqualValues(t, (2+3-1)*(1+2), trace.End())

	_, err := sim.Run(oneStream(t, "1SEND_F0 1SEND_B0 1SEND_F1 1SEND_B1"), uniform(1, 2, 0))
	require.EqualError(t, err, `deadlock: 8 of 20 tasks ran, then every stream was blocked
  0B0 (backward, stage 0, microbatch 0; rank 0, stream "compute") waits for 1SEND_B0 to rank 0 (gradients sent, stage 1, microbatch 0; rank 1, stream "messages")
  1B0 (backward, stage 1, microbatch 0; rank 1, stream "compute") waits for 2SEND_B0 to rank 1 (gradients sent, stage 2, microbatch 0; rank 2, stream "messages")
  1SEND_B0 to rank 0 (gradients sent, stage 1, microbatch 0; rank 1, stream "messages") waits for 1B0 (backward, stage 1, microbatch 0; rank 1, stream "compute")
  2F1 (forward, stage 2, microbatch 1; rank 2, stream "compute") waits for 1SEND_F1 to rank 2 (activations sent, stage 1, microbatch 1; rank 1, stream "messages")
  2SEND_B0 to rank 1 (gradients sent, stage 2, microbatch 0; rank 2, stream "messages") waits for 2B0 (backward, stage 2, microbatch 0; rank 2, stream "compute")`)
	var deadlock *sim.DeadlockError
	require.ErrorAs(t, err, &deadlock)
	var left []int
	for _, b := range deadlock.Blocked {
		left = append(left, b.Left)
	}
	require.Equal(t, []int{2, 2, 3, 3, 2}, left)
}

// ranks makes a graph of so many ranks with a stream and a group of all.
func ranks(n int) *graph.Graph {
	g := &graph.Graph{Shape: graph.Shape{Ranks: n, Microbatches: 1}}
	for r := range int32(n) {
		g.AddStream(r, "compute")
	}
	g.AddGroup(graph.InOrder(n).First)
	return g
}

func task(k graph.Kind, rank, peer int32) graph.Task {
	return graph.Task{Kind: k, Rank: rank, Stream: rank, Stage: graph.None, Microbatch: graph.None, Peer: peer}
}

func TestGroupThatNeverArrives(t *testing.T) {
	g := ranks(3)
	g.Add(task(graph.AllReduce, 0, 0))
	g.Add(task(graph.AllReduce, 2, 0))
	g.Add(task(graph.Optimizer, 2, graph.None))
	_, err := sim.Run(g, uniform(1, 2, 0))
	require.EqualError(t, err, `deadlock: 0 of 3 tasks ran, then every stream was blocked
  ALL_REDUCE.0 (all-reduce; rank 0, stream "compute") waits for the other ranks of group [0 1 2]
  ALL_REDUCE.0 (all-reduce; rank 2, stream "compute") waits for the other ranks of group [0 1 2]`)
}

// Two ranks that call the collectives of two groups in different order.
func TestGroupsInDifferentOrder(t *testing.T) {
	g := ranks(2)
	second := g.AddGroup([]int32{0, 1})
	for _, call := range [][2]int32{{0, 0}, {0, second}, {1, second}, {1, 0}} {
		g.Add(task(graph.AllReduce, call[0], call[1]))
	}
	require.NoError(t, g.Validate())
	_, err := sim.Run(g, uniform(1, 2, 0))
	require.ErrorContains(t, err, "deadlock: 0 of 4 tasks ran")
}

// The list of blocked streams is cut short.
func TestLongDeadlock(t *testing.T) {
	g := ranks(40)
	for r := range int32(40) {
		g.Add(task(graph.Optimizer, r, graph.None), (r+1)%40)
	}
	_, err := sim.Run(g, uniform(1, 2, 0))
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 1+32+1)
	require.Equal(t, `  OPTIMIZER.0 (optimizer; rank 31, stream "compute") waits for OPTIMIZER.0 (optimizer; rank 32, stream "compute")`, lines[32])
	require.Equal(t, "  … and 8 more streams", lines[33])
}

func TestNegativeCost(t *testing.T) {
	g := build(t, "gpipe", 2, 1)
	_, err := sim.Run(g, uniform(1, -2, 0))
	require.EqualError(t, err, `the cost of 1B0 (backward, stage 1, microbatch 0; rank 1, stream "compute") is negative: busy -2ns, delay 0s`)
	_, err = sim.Run(g, uniform(1, 2, -3))
	require.EqualError(t, err, `the cost of 0SEND_F0 to rank 1 (activations sent, stage 0, microbatch 0; rank 0, stream "send F to 1") is negative: busy 0s, delay -3ns`)
}

func TestEmptyGraph(t *testing.T) {
	trace := run(t, &graph.Graph{}, graph.Costs{})
	require.Zero(t, trace.End())
	require.Empty(t, sim.CriticalPath(trace))
}

func TestOverflow(t *testing.T) {
	g := build(t, "gpipe", 1, 4)
	_, err := sim.Run(g, uniform(1<<62, 1, 0))
	require.EqualError(t, err, "the step would take longer than 292 years, which is more than time can count here")
}

// Launching costs something, and the graph cannot be run: it says so as it
// would otherwise.
func TestDeadlockWithHost(t *testing.T) {
	g := ranks(2)
	g.Add(task(graph.Forward, 0, 0), 1)
	g.Add(task(graph.Forward, 1, 0), 0)
	g.Add(task(graph.Forward, 1, 1))
	host := &graph.Host{Thread: []int32{0, 0}}
	_, err := sim.Run(g, launching(uniform(1, 2, 0), 1, 1, host))
	require.ErrorContains(t, err, "deadlock: 0 of 3 tasks ran")
	require.ErrorContains(t, err, `rank 0, stream "compute") waits for`)
}
