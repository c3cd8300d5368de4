package wiring_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// needs lists, by the definitions alone, the names of what a task waits for:
// named by replica, because the names of tasks repeat.
func needs(g *graph.Graph, task graph.Task, isSplit bool) []string {
	replica := int(task.Rank) / g.Shape.Ranks
	backward := "B"
	if isSplit {
		backward = "I"
	}
	name := func(stage int32, kind string) string {
		return fmt.Sprintf("%d:%d%s%d", replica, stage, kind, task.Microbatch)
	}
	// from names the result of another stage, or the message that carries it.
	from := func(stage int32, kind, message string) []string {
		switch {
		case stage < 0 || int(stage) >= len(g.Placement.First):
			return nil
		case g.Placement.First[stage] != g.Placement.First[task.Stage]:
			return []string{name(stage, message)}
		}
		return []string{name(stage, kind)}
	}
	switch task.Kind {
	case graph.Forward:
		return from(task.Stage-1, "F", "SEND_F")
	case graph.Backward, graph.InputGradient:
		return append(from(task.Stage+1, backward, "SEND_B"), name(task.Stage, "F"))
	case graph.WeightGradient:
		return []string{name(task.Stage, "I")}
	case graph.SendForward:
		return []string{name(task.Stage, "F")}
	case graph.SendBackward:
		return []string{name(task.Stage, backward)}
	}
	return nil
}

func TestPipelineDependencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ordertest.Draw(t)
		g := ordertest.Graph(t, p)
		name := func(task graph.Task) string { return fmt.Sprintf("%d:%s", int(task.Rank)/g.Shape.Ranks, task) }
		stream := map[string]int32{}
		for i, task := range g.Tasks() {
			stream[name(task)] = task.Stream
			var got []string
			for _, d := range g.Deps(i) {
				got = append(got, name(g.Task(d)))
			}
			// What comes before it on its stream goes without saying.
			want := slices.DeleteFunc(needs(g, task, p.Order.Split()), func(n string) bool {
				s, before := stream[n]
				return before && s == task.Stream
			})
			require.ElementsMatch(t, want, got, "%s", g.Describe(i))
		}
	})
}

// There is one message per boundary between ranks, microbatch, direction and
// replica, of the right size; the compute tasks are the order; one optimizer
// ends every rank.
func TestPipelineTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ordertest.Draw(t)
		g := ordertest.Graph(t, p)
		var want, got []graph.Task
		computed := make(order.Order, g.Ranks())
		optimizers := 0
		for _, task := range g.Tasks() {
			switch {
			case task.Kind.Message():
				task.Stream = 0
				got = append(got, task)
			case task.Kind.Compute():
				require.Equal(t, "compute", g.Streams[task.Stream].Name)
				computed[task.Rank] = append(computed[task.Rank], order.Action{Kind: task.Kind, Stage: task.Stage, Microbatch: task.Microbatch})
			default:
				require.Equal(t, graph.Optimizer, task.Kind)
				optimizers++
			}
		}
		for d := range int32(p.Shape.Replicas) {
			first := d * int32(p.Shape.Ranks)
			for s := range int32(len(p.Boundaries)) {
				from, to := first+g.Placement.First[s], first+g.Placement.First[s+1]
				for m := range int32(p.Shape.Microbatches) {
					if from != to {
						want = append(want,
							graph.Task{Kind: graph.SendForward, Rank: from, Peer: to, Stage: s, Microbatch: m, Bytes: int64(100+s) * p.Samples[m]},
							graph.Task{Kind: graph.SendBackward, Rank: to, Peer: from, Stage: s + 1, Microbatch: m, Bytes: int64(200+s) * p.Samples[m]})
					}
				}
			}
			require.Equal(t, p.Order.String(), computed[first:int(first)+p.Shape.Ranks].String())
		}
		require.ElementsMatch(t, want, got)
		if p.Optimizer {
			require.Equal(t, g.Ranks(), optimizers)
		} else {
			require.Zero(t, optimizers)
		}
	})
}

// A message goes on its own stream for neighbour and direction, in the order
// in which the rank computes.
func TestMessageStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := ordertest.Graph(t, ordertest.Draw(t))
		start, byStream := g.ByStream()
		seen := map[graph.Stream]bool{}
		for s, stream := range g.Streams {
			require.False(t, seen[stream], "%v is there twice", stream)
			seen[stream] = true
			before := int32(-1)
			for _, i := range byStream[start[s]:start[s+1]] {
				task := g.Task(i)
				if !task.Kind.Message() {
					require.Equal(t, "compute", stream.Name)
					continue
				}
				letter := map[graph.Kind]string{graph.SendForward: "F", graph.SendBackward: "B"}[task.Kind]
				require.Equal(t, fmt.Sprintf("send %s to %d", letter, task.Peer), stream.Name)
				require.Greater(t, g.Deps(i)[0], before)
				before = g.Deps(i)[0]
			}
		}
	})
}
