// Package graph is the plain data that all of psim shares: a [Task], the
// [Graph] of one training step, the [Placement] of its stages, the [Costs] that a
// simulation takes, the [Trace] that a run leaves, and its [Summary]. It imports
// nothing of psim.
//
// A task may start when every task it depends on has ended, and when it is at
// the head of its stream: the tasks of one stream run one at a time, in graph
// order, as on a CUDA stream.
//
// A step may have a hundred million tasks, but only a few thousand that differ in more than
// their microbatch. So a graph keeps a [Task] for each of these classes, and four numbers for
// every task ([Columns]). What tasks cost is asked once for each class ([Price]).
package graph

import (
	"fmt"
	"iter"
	"slices"
)

// A Stream is an in-order queue of a rank, like a CUDA stream: its tasks run
// one at a time, in the order in which they stand in the graph.
type Stream struct {
	Rank int32
	Name string // "compute", "send F to 1", …
}

// A Graph is a step of training as a value: what has to be done, by whom, in
// which order and after what. It holds no times.
type Graph struct {
	// Name is the schedule's.
	Name string
	// Shape is what the graph was built from.
	Shape Shape
	// Placement is where the stages are, in the first replica.
	Placement Placement
	// Stashing says that every backward is followed by an update of its stage,
	// and uses the weights that its forward had (see Pipeline).
	Stashing bool
	// Layered says that stages are the layers of a network that no rank has a part
	// of, as under ZeRO 3: a microbatch in flight is one activation, not one for each.
	Layered bool
	// Late tells, by stage and microbatch, whether the W comes when the stage before, on the
	// same rank, has gone back over the microbatch. It is nil where no stage and the one
	// before are on one rank, and where backwards are not split.
	Late    []bool
	Streams []Stream
	// Groups lists the ranks of every group that runs fused collectives. The last ones are those
	// within a replica, Within for each.
	Groups [][]int32
	Within int
	// Widths says, by group, how many devices of each of its ranks take part in the same
	// collective, where a rank stands for several. Nil means one device of each.
	Widths []int32
	// Experts says which groups are groups of experts.
	Experts Experts
	// Copies is how many replicas the tasks stand for: all of them, where these do the same at
	// the same time and the graph has the tasks of the first one only; else 1, or 0. See
	// [Graph.Alike].
	Copies int
	// Classes has a task for every class. Tasks of one class are alike but for their microbatch,
	// and cost the same. The class has that of the first of them.
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

// Add appends a task, a class of its own, and what it depends on, and returns its index. A
// dependency may be a task that is added later; None is skipped.
func (g *Graph) Add(t Task, deps ...int32) int32 {
	g.Classes = append(g.Classes, t)
	i := g.Put(int32(len(g.Classes)-1), t.Stream, None)
	g.Wait(i, deps...)
	return i
}

// Task returns the i-th task. That of a graph without [Columns.Microbatch] has the microbatch of
// its class.
func (g *Graph) Task(i int32) Task {
	t := *g.Like(i)
	if g.Microbatch != nil {
		t.Microbatch = g.Microbatch[i]
	}
	return t
}

// Like returns the class of a task: the task but for its microbatch. It is for reading.
func (g *Graph) Like(i int32) *Task { return &g.Classes[g.Rows[i].Class] }

// Tasks yields all tasks in order.
func (g *Graph) Tasks() iter.Seq2[int32, Task] {
	return func(yield func(int32, Task) bool) {
		for i := range int32(g.Len()) {
			if !yield(i, g.Task(i)) {
				return
			}
		}
	}
}

// Apart returns the graph with a class for every task, for costs that depend on the microbatch.
func (g *Graph) Apart() *Graph {
	if g.apart() {
		return g
	}
	apart := *g
	apart.Classes, apart.Rows, apart.Microbatch = make([]Task, g.Len()), slices.Clone(g.Rows), nil
	for i := range apart.Rows {
		apart.Classes[i], apart.Rows[i].Class = g.Task(int32(i)), int32(i)
	}
	return &apart
}

// apart reports whether the i-th task is of the i-th class already.
func (g *Graph) apart() bool {
	for i := range g.Rows {
		if int(g.Rows[i].Class) != i {
			return false
		}
	}
	return len(g.Classes) == len(g.Rows)
}

// Counts tells how many tasks there are of every class.
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

// AddWide appends a group of ranks, each of which takes part with several of its devices.
func (g *Graph) AddWide(ranks []int32, width int) int32 {
	g.Groups, g.Widths = append(g.Groups, ranks), append(g.Widths, int32(width))
	return int32(len(g.Groups) - 1)
}

// Width is how many devices of each of its ranks take part in a group's collectives.
func (g *Graph) Width(group int32) int {
	if g.Widths == nil {
		return 1
	}
	return int(g.Widths[group])
}

// Members counts the devices that take part in a group's collectives.
func (g *Graph) Members(group int32) int { return len(g.Groups[group]) * g.Width(group) }

// Arriving counts the ranks of a group whose tasks the graph has.
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
func (g *Graph) Size() int { return g.Len() * max(1, g.Copies) }

// Describe names task i in words, too, with its rank and stream, for messages.
func (g *Graph) Describe(i int32) string {
	t := g.Task(i)
	return g.DescribeTask(&t)
}

// DescribeTask does what Describe does, of a task or a class.
func (g *Graph) DescribeTask(t *Task) string {
	name := t.String()
	if t.Kind.Message() {
		name += fmt.Sprintf(" to rank %d", t.Peer)
	}
	return fmt.Sprintf("%s (%s; rank %d, stream %q)", name, t.words(), t.Rank, g.Streams[t.Stream].Name)
}
