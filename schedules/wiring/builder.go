package wiring

import (
	"psim/internal/ram"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A Builder wires pipelines, one after another, and reuses its memory: a graph is valid until it
// makes the next. The zero value is ready for use.
type Builder struct {
	*Pipeline
	graph  *graph.Graph
	groups groups
	whole  wholeStage
	turns  turns
	cycles *cycles
	classes
	// plain says that every action is one task and its message, except for the first forward
	// and the last backward of a stage.
	plain bool

	// By direction, and copy of a stage as [graph.Placement.Copy] numbers it: the rank that
	// results are sent to; None if the next stage is on the same rank.
	destinations [2][]int32
	// By direction, stage and microbatch: the task at whose end the result has arrived.
	results  [2][]int32
	counts   [4][]int32 // by kind and copy: the number of actions
	last     []int32    // by copy: the index of the action that completes its gradients
	first    []ahead    // by stage, if parameters are gathered ahead; nil otherwise
	stagesOn [][]int32  // by rank, last stage first: the order in which gradients are complete
	begin    []int32    // by rank: its first task; at the end the number of tasks
	deps     []int32    // buffer for the dependencies of a task
}

// Check reports why a pipeline has no graph.
func (b *Builder) Check(p Pipeline) error {
	_, err := b.prepare(&p)
	return err
}

// prepare checks a pipeline and counts its tasks.
func (b *Builder) prepare(p *Pipeline) (size int64, err error) {
	p.fill()
	if err := p.check(); err != nil {
		return 0, err
	}
	if b.whole, err = p.arrange(); err != nil {
		return 0, err
	}
	b.Pipeline = p
	if size, err = b.size(); err != nil {
		return 0, err
	}
	if b.turns, err = p.turns(b.whole); err != nil {
		return 0, err
	}
	if b.cycles, err = p.cycles(b.turns); err != nil {
		return 0, err
	}
	check := ram.CheckTasks
	if p.Brief {
		check = ram.CheckBrief
	}
	return size, check(float64(size))
}

// Graph is [Pipeline.Graph].
func (b *Builder) Graph(p Pipeline) (*graph.Graph, error) {
	size, err := b.prepare(&p)
	if err != nil {
		return nil, err
	}
	b.reset(int(size))
	for r := range p.Order {
		b.addRank(int32(r))
	}
	b.begin, b.graph.Barriers = append(b.begin, int32(b.graph.Len())), b.cycles.tasks
	for r := range p.Order {
		b.connectRank(int32(r))
	}
	b.replicate()
	return b.graph, nil
}

// reset prepares the builder for a graph of a number of tasks.
func (b *Builder) reset(size int) {
	p, g := b.Pipeline, &graph.Graph{}
	if b.graph != nil {
		g.Columns, g.Classes = b.graph.Columns, b.graph.Classes[:0]
	}
	b.graph = g
	g.Name, g.Shape, g.Placement = p.Name, p.Shape, p.Placement
	g.Stashing, g.Layered, g.FullySharded, g.Within = p.Stashing, p.Layered, p.FullySharded, len(p.Tied)
	g.Reserve(size, !p.Brief)
	b.groups, b.first, b.stagesOn, b.begin = p.makeGroups(g), p.firstForwards(), p.stagesOn(), b.begin[:0]
	b.plain = p.plain()
	stages, copies := p.Placement.Stages(), p.copies()
	for d := range b.destinations {
		b.destinations[d] = nones(b.destinations[d], copies)
		b.results[d] = grown(b.results[d], stages*p.Shape.Microbatches)
	}
	for s := range stages - 1 {
		if p.Placement.Together(s, s+1) {
			continue
		}
		b.destinations[0][s], b.destinations[1][s+1] = p.Placement.First[s+1], p.Placement.First[s]
		if p.Placement.Second != nil {
			b.destinations[0][stages+s], b.destinations[1][stages+s+1] = p.Placement.Second[s+1], p.Placement.Second[s]
		}
	}
	b.classes.reset(b)
}

// plain reports whether no option of the pipeline adds tasks to every action.
func (p *Pipeline) plain() bool {
	sums := p.Sync.Units != nil || p.Sync.Broadcast != nil || p.Sync.EveryMicrobatch && p.Sync.active(p.Shape)
	return !sums && p.Loop == nil && p.Exchanges == nil && p.Offload == nil &&
		!p.Stashing && !p.Synchronous && p.Pairs != Overlap
}

// copies counts the copies of all stages.
func (p *Pipeline) copies() int { return len(p.Placement.First) + len(p.Placement.Second) }

// copyOf returns the number of the copy of its stage that an action runs on.
func (p *Pipeline) copyOf(a *order.Action) int32 {
	if p.Placement.Second == nil {
		return a.Stage
	}
	return int32(p.Placement.Copy(a.Stage, a.Microbatch))
}

// stagesOn lists the stages of every pipeline rank, last stage first.
func (p *Pipeline) stagesOn() [][]int32 {
	on := make([][]int32, p.Shape.Ranks)
	for s := p.Placement.Stages() - 1; s >= 0; s-- {
		for _, r := range p.Placement.Ranks(s) {
			on[r] = append(on[r], int32(s))
		}
	}
	return on
}

// grown returns a slice of length n, in the memory of s if that is large enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// nones returns a slice of n times None, in the memory of s if that is large enough.
func nones(s []int32, n int) []int32 {
	s = grown(s, n)
	for i := range s {
		s[i] = graph.None
	}
	return s
}

// direction returns 0 for a forward, whose result goes to the next stage, and 1 for others, whose
// result goes to the stage before.
func direction(k graph.Kind) int {
	if k == graph.Forward {
		return 0
	}
	return 1
}

// makesGradients reports whether a task of a kind completes a microbatch's
// share of a stage's gradients.
func makesGradients(k graph.Kind) bool { return k == graph.Backward || k == graph.WeightGradient }
