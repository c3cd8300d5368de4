package wiring_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// drawPipeline draws a legal pipeline: a plain order of the catalog, some of whose
// full backwards are split, over any placement, replicas, and sizes.
func drawPipeline(t *rapid.T) wiring.Pipeline {
	s := rapid.SampledFrom(schedules.Catalog()).Filter(func(s schedules.Schedule) bool { return plain(t, s) }).Draw(t, "schedule")
	shape := rapid.SampledFrom(served(s, 4, 5, 3)).Draw(t, "shape")
	var placement []int32
	if s.MultiStage && s.Pipelined {
		placement = rapid.SliceOfN(rapid.Int32Range(0, int32(shape.Ranks-1)), 1, 6).Draw(t, "placement")
	}
	if shape.Replicas = rapid.IntRange(1, 3).Draw(t, "replicas"); s.Check(shape) != nil {
		shape.Replicas = 1
	}
	p, err := s.Pipeline(shape, placement)
	require.NoError(t, err)
	m, stages := shape.Microbatches, len(p.Placement.First)
	if rapid.Bool().Draw(t, "split") {
		p.Order = split(p.Order)
	}
	p.Samples = rapid.SliceOfN(rapid.Int64Range(1, 9), m, m).Draw(t, "samples")
	p.Boundaries = make([]wiring.Boundary, stages-1)
	for s := range p.Boundaries {
		p.Boundaries[s] = wiring.Boundary{Forward: int64(100 + s), Backward: int64(200 + s)}
	}
	p.Optimizer = rapid.Bool().Draw(t, "optimizer")
	return p
}

// plain reports whether the wiring of a schedule follows from its order alone: its
// stages have one copy, its backwards are all whole or all split, run beside each
// other and update nothing, and there are no pairs.
func plain(t tb, s schedules.Schedule) bool {
	if s.SerialBackward || s.Stashing || s.Placement(s.Example()).Second != nil {
		return false
	}
	o, err := s.Order(s.Example(), nil)
	require.NoError(t, err)
	for _, actions := range o {
		for _, a := range actions {
			if a.Pair || a.Kind == graph.Backward && o.Split() {
				return false
			}
		}
	}
	return true
}

// split replaces every B by I and W.
func split(o order.Order) order.Order {
	halves := make(order.Order, len(o))
	for r, row := range o {
		for _, a := range row {
			if a.Kind == graph.Backward {
				halves[r] = append(halves[r],
					order.Action{Kind: graph.InputGradient, Stage: a.Stage, Microbatch: a.Microbatch},
					order.Action{Kind: graph.WeightGradient, Stage: a.Stage, Microbatch: a.Microbatch})
			} else {
				halves[r] = append(halves[r], a)
			}
		}
	}
	return halves
}

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
		p := drawPipeline(t)
		g := graphOf(t, p)
		for i, task := range g.Tasks {
			var got []string
			for _, d := range g.Deps(int32(i)) {
				got = append(got, fmt.Sprintf("%d:%s", int(g.Tasks[d].Rank)/g.Shape.Ranks, g.Tasks[d]))
			}
			require.ElementsMatch(t, needs(g, task, p.Order.Split()), got, "%s", g.Describe(int32(i)))
		}
	})
}

// There is one message per boundary between ranks, microbatch, direction and
// replica, of the right size; the compute tasks are the order; one optimizer
// ends every rank.
func TestPipelineTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPipeline(t)
		g := graphOf(t, p)
		var want, got []graph.Task
		computed := make(order.Order, g.Ranks())
		optimizers := 0
		for _, task := range g.Tasks {
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
		g := graphOf(t, drawPipeline(t))
		start, byStream := g.ByStream()
		seen := map[graph.Stream]bool{}
		for s, stream := range g.Streams {
			require.False(t, seen[stream], "%v is there twice", stream)
			seen[stream] = true
			before := int32(-1)
			for _, i := range byStream[start[s]:start[s+1]] {
				task := g.Tasks[i]
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
