// Package graph is the plain data that all of psim shares: a [Task], the
// [Graph] of one training step, the [Placement] of its stages, the [Costs] that a
// simulation takes, the [Trace] that a run leaves, and its [Summary]. It imports
// nothing of psim.
//
// A task may start when every task it depends on has ended, and when it is at
// the head of its stream: the tasks of one stream run one at a time, in graph
// order, as on a CUDA stream.
package graph

import (
	"fmt"
	"math"
	"slices"
)

// A Stream is an in-order queue of a rank, like a CUDA stream: its tasks run
// one at a time, in the order in which they stand in the graph.
type Stream struct {
	Rank int32
	Name string // "compute", "send F to 1", …
}

// A Graph is a step of training as a value: what has to be done, by whom, in
// which order and after what. It holds no times. Task i depends on the tasks
// Deps(i) and follows the task before it on its stream.
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
	// Late tells of a graph that stands for a Packed, by stage and microbatch, whether
	// the W comes when the stage before, on the same rank, has gone back over the
	// microbatch. nil where no stage and the one before are on one rank.
	Late    []bool
	Streams []Stream
	// Groups lists the ranks of every group that runs fused collectives.
	Groups [][]int32
	// Widths says, by group, how many devices of each of its ranks take part in the same
	// collective, where a rank stands for several; nil: one of each, beside those of the
	// other devices.
	Widths []int32
	// Experts says which of them are groups of experts.
	Experts Experts
	Tasks   []Task

	depStart []uint32 // len(Tasks)+1 offsets into deps
	deps     []int32
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

// MaxTasks is the size beyond which a graph is refused.
const MaxTasks = math.MaxInt32

// Grow reserves memory for so many more tasks and dependencies, so that Add does
// not have to.
func (g *Graph) Grow(tasks, deps int) {
	g.Tasks = slices.Grow(g.Tasks, tasks)
	g.depStart = slices.Grow(g.depStart, tasks+1)
	g.deps = slices.Grow(g.deps, deps)
}

// Add appends a task and what it depends on, and returns its index. A
// dependency may be a task that is added later; None is skipped.
func (g *Graph) Add(t Task, deps ...int32) int32 {
	g.Tasks = append(g.Tasks, t)
	g.Connect(deps...)
	return int32(len(g.Tasks) - 1)
}

// Connect appends the dependencies of the first task that has none yet.
func (g *Graph) Connect(deps ...int32) {
	if len(g.depStart) == 0 {
		g.depStart = append(g.depStart, 0)
	}
	for _, d := range deps {
		if d != None {
			g.deps = append(g.deps, d)
		}
	}
	g.depStart = append(g.depStart, uint32(len(g.deps)))
}

// AddStream appends a stream of a rank and returns its index.
func (g *Graph) AddStream(rank int32, name string) int32 {
	g.Streams = append(g.Streams, Stream{Rank: rank, Name: name})
	return int32(len(g.Streams) - 1)
}

// AddGroup appends a group of ranks and returns its index.
func (g *Graph) AddGroup(ranks []int32) int32 { return g.AddWide(ranks, 1) }

// AddWide appends a group of ranks, each of which takes part with so many of its devices.
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

// Deps lists the tasks that task i waits for, its stream aside. The slice
// belongs to the graph.
func (g *Graph) Deps(i int32) []int32 { return g.deps[g.depStart[i]:g.depStart[i+1]] }

// Ranks is the number of devices over all replicas.
func (g *Graph) Ranks() int { return g.Shape.Ranks * max(1, g.Shape.Replicas) }

// ByStream returns the tasks of every stream in order: those of stream s are
// order[start[s]:start[s+1]].
func (g *Graph) ByStream() (start, order []int32) {
	start = make([]int32, len(g.Streams)+1)
	for i := range g.Tasks {
		start[g.Tasks[i].Stream+1]++
	}
	for s := 1; s < len(start); s++ {
		start[s] += start[s-1]
	}
	next := slices.Clone(start)
	order = make([]int32, len(g.Tasks))
	for i := range g.Tasks {
		s := g.Tasks[i].Stream
		order[next[s]] = int32(i)
		next[s]++
	}
	return start, order
}

// Describe names task i in words, too, with its rank and stream, for messages.
func (g *Graph) Describe(i int32) string {
	t := g.Tasks[i]
	name := t.String()
	if t.Kind.Message() {
		name += fmt.Sprintf(" to rank %d", t.Peer)
	}
	return fmt.Sprintf("%s (%s; rank %d, stream %q)", name, t.words(), t.Rank, g.Streams[t.Stream].Name)
}
