// Package graph is the plain data that all of psim shares: a [Task], the
// [Graph] of one training step, the [Placement] of its stages, the [Costs] that a
// simulation takes, the [Trace] of a run, and its [Summary]. It imports
// nothing of psim.
//
// A task may start when every task it depends on has ended, and when it is at
// the head of its stream: the tasks of one stream run one at a time, in graph
// order, as on a CUDA stream.
//
// A step may have a hundred million tasks, but only a few thousand of them differ in more
// than their microbatch. So a graph stores a [Task] for each class of tasks that are alike, and
// only a few numbers for every task ([Columns]). A cost model is asked for one cost per class
// ([Price]).
package graph

import (
	"fmt"
	"slices"
)

// A Stream is an in-order queue of a rank, like a CUDA stream: its tasks run
// one at a time, in the order in which they stand in the graph.
type Stream struct {
	Rank int32
	Name string // "compute", "send F to 1", …
}

// A Graph is a step of training as a value: which tasks each rank runs, in which order, and
// which tasks each of them depends on. It holds no times.
type Graph struct {
	// Name is the schedule's.
	Name string
	// Shape is the size that the graph was built for.
	Shape Shape
	// Placement says on which ranks the stages of the first replica are.
	Placement Placement
	// Stashing says that every backward is followed by an update of its stage,
	// and uses the weights that its forward had (see Pipeline).
	Stashing bool
	// Layered says that the stages are layers and every rank runs all of them, as under
	// ZeRO 3 and where activations are copied to hosts: a microbatch in flight is one activation,
	// not one for each stage.
	Layered bool
	// FullySharded says that parameters are divided among the replicas, and gathered for every use.
	FullySharded bool
	// Late says, by stage and microbatch, whether the W runs after the backward of the stage
	// before it, on the same rank. It is nil unless backwards are split and a rank holds two
	// neighbouring stages.
	Late    []bool
	Streams []Stream
	// Groups lists the ranks of every group that runs fused collectives. The last ones are
	// groups within one replica; each replica has Within of them.
	Groups [][]int32
	Within int
	// Widths says, by group, how many devices of each of its ranks take part in the same
	// collective, where a rank stands for several. Nil means one device of each.
	Widths []int32
	// Experts says which groups are groups of experts.
	Experts Experts
	// Sharing says which groups gather updated parameters, if not those that sum gradients.
	Sharing Sharing
	// Copies is greater than 1 where the graph has the tasks of the first replica only, and
	// these stand for Copies replicas that do the same at the same time. See [Graph.Alike].
	Copies int
	// Classes has one task for every class. The tasks of a class differ in their microbatch
	// only, and cost the same. The entry has the microbatch of the first of them.
	Classes []Task
	Columns
}

// Shape is the size of a schedule.
type Shape struct {
	Ranks        int // pipeline ranks of one replica
	Virtual      int // stages per rank; 0 means 1
	Microbatches int
	Replicas     int // data-parallel copies; 0 means 1
	// Group is the number of microbatches that go through a rank's chunks
	// together, in schedules with several; 0 leaves it to the schedule.
	Group int
}

// Stages is the number of stages of one replica when every rank holds the
// same number of them.
func (s Shape) Stages() int { return s.Ranks * max(1, s.Virtual) }

// Add appends a task with a class of its own and the tasks it depends on, and returns its index.
// A dependency may be a task that is added later; None is skipped.
func (g *Graph) Add(t Task, deps ...int32) int32 {
	g.Classes = append(g.Classes, t)
	i := g.Put(int32(len(g.Classes)-1), t.Stream, None)
	g.Wait(i, deps...)
	return i
}

// Task returns the i-th task. Without [Columns.Microbatch] its microbatch is that of its class.
func (g *Graph) Task(i int32) Task {
	t := *g.Class(i)
	if g.Microbatch != nil {
		t.Microbatch = g.Microbatch[i]
	}
	return t
}

// Class returns the class of the i-th task, which must not be changed: it equals the task except
// for the microbatch.
func (g *Graph) Class(i int32) *Task { return &g.Classes[g.Rows[i].Class] }

// Distinct returns the graph with a class for every task, for costs that depend on the microbatch.
func (g *Graph) Distinct() *Graph {
	if g.distinct() {
		return g
	}
	d := *g
	d.Classes, d.Rows, d.Microbatch = make([]Task, g.Len()), slices.Clone(g.Rows), nil
	for i := range d.Rows {
		d.Classes[i], d.Rows[i].Class = g.Task(int32(i)), int32(i)
	}
	return &d
}

// apart reports whether the i-th task is of the i-th class already.
func (g *Graph) distinct() bool {
	for i := range g.Rows {
		if int(g.Rows[i].Class) != i {
			return false
		}
	}
	return len(g.Classes) == len(g.Rows)
}

// Counts returns the number of tasks in every class.
func (g *Graph) Counts() []int {
	counts := make([]int, len(g.Classes))
	for _, row := range g.Rows {
		counts[row.Class]++
	}
	return counts
}

// AddStream appends a stream of a rank and returns its index.
func (g *Graph) AddStream(rank int32, name string) int32 {
	g.Streams = append(g.Streams, Stream{Rank: rank, Name: name})
	return int32(len(g.Streams) - 1)
}

// AddGroup appends a group of ranks and returns its index.
func (g *Graph) AddGroup(ranks []int32) int32 { return g.AddWide(ranks, 1) }

// AddWide appends a group of ranks that each take part with width of their devices.
func (g *Graph) AddWide(ranks []int32, width int) int32 {
	g.Groups, g.Widths = append(g.Groups, ranks), append(g.Widths, int32(width))
	return int32(len(g.Groups) - 1)
}

// Width is the number of devices with which every rank of a group takes part in its collectives.
func (g *Graph) Width(group int32) int {
	if g.Widths == nil {
		return 1
	}
	return int(g.Widths[group])
}

// Members counts the devices that take part in a group's collectives.
func (g *Graph) Members(group int32) int { return len(g.Groups[group]) * g.Width(group) }

// Arriving counts the ranks of a group whose tasks are in the graph. The others are in replicas
// that the first one stands for.
func (g *Graph) Arriving(group int32) int {
	ranks := g.Groups[group]
	if g.Copies <= 1 {
		return len(ranks)
	}
	n := 0
	for n < len(ranks) && int(ranks[n]) < g.Shape.Ranks {
		n++
	}
	return n
}

// Ranks is the number of ranks over all replicas.
func (g *Graph) Ranks() int { return g.Shape.Ranks * max(1, g.Shape.Replicas) }

// Size counts the tasks of all replicas.
func (g *Graph) Size() int { return g.Len() * g.Replicas() }

// Describe names task i for messages: its notation, its meaning in words, its rank and stream.
func (g *Graph) Describe(i int32) string {
	t := g.Task(i)
	return g.DescribeTask(&t)
}

// DescribeTask is [Graph.Describe] of a task that is not in the graph, or of a class.
func (g *Graph) DescribeTask(t *Task) string {
	name := t.String()
	if t.Kind.Message() {
		name += fmt.Sprintf(" to rank %d", t.Peer)
	}
	return fmt.Sprintf("%s (%s; rank %d, stream %q)", name, t.words(), t.Rank, g.Streams[t.Stream].Name)
}
