package wiring

import (
	"psim/internal/ram"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A Builder wires pipelines, one after another, in memory that it keeps: the graph that it made
// before is lost. The zero value is ready.
type Builder struct {
	*Pipeline
	graph  *graph.Graph
	groups groups
	whole  wholeStage
	turns  turns
	cycles *cycles
	classes
	plain bool // actions are one task and its message, but for the first or last of a stage
	// Copies of stages are numbered as by [graph.Placement.Copy].
	destinations [2][]int32 // by direction and copy: the rank where results go; None if they stay
	results      [2][]int32 // by direction, stage and microbatch: the task after which a result is there
	counts       [4][]int32 // by kind of action and copy: how many there are
	last         []int32    // by copy: the action of its rank that completes its gradients
	first        []ahead    // by stage, where parameters are gathered ahead; else nil
	stagesOn     [][]int32  // by rank, last first: the order in which gradients are complete
	begin        []int32    // by rank: its first task; and the end
	deps         []int32    // of the task at hand
}

// Graph is [Pipeline.Graph].
func (b *Builder) Graph(p Pipeline) (*graph.Graph, error) {
	p.fill()
	if err := p.check(); err != nil {
		return nil, err
	}
	var err error
	if b.whole, err = p.arrange(); err != nil {
		return nil, err
	}
	b.Pipeline = &p
	size, err := b.size()
	if err != nil {
		return nil, err
	}
	if b.turns, err = p.turns(b.whole); err != nil {
		return nil, err
	}
	if b.cycles, err = p.cycles(b.turns); err != nil {
		return nil, err
	}
	check := ram.CheckTasks
	if p.Brief {
		check = ram.CheckBrief
	}
	if err := check(float64(size)); err != nil {
		return nil, err
	}
	b.reset(int(size))
	for r := range p.Order {
		b.rank(int32(r))
	}
	b.begin = append(b.begin, int32(b.graph.Len()))
	for r := range p.Order {
		b.connect(int32(r))
	}
	b.replicate()
	return b.graph, nil
}

// reset readies the memory for a graph.
func (b *Builder) reset(size int) {
	p, g := b.Pipeline, &graph.Graph{}
	if b.graph != nil {
		g.Columns, g.Classes = b.graph.Columns, b.graph.Classes[:0]
	}
	b.graph = g
	g.Name, g.Shape, g.Placement, g.Stashing, g.Layered, g.Within = p.Name, p.Shape, p.Placement, p.Stashing, p.Layered, len(p.Tied)
	g.Reserve(size, !p.Brief)
	b.groups, b.first, b.stagesOn, b.begin = p.makeGroups(g), p.firstForwards(), p.stagesOn(), b.begin[:0]
	every := p.Sync.EveryMicrobatch && p.Sync.active(p.Shape)
	b.plain = p.Exchanges == nil && p.Sync.Units == nil && p.Sync.Broadcast == nil && !every && !p.Stashing && !p.Synchronous && p.Pairs != Overlap
	stages, copies := p.Placement.Stages(), p.copies()
	for d := range b.destinations {
		b.destinations[d], b.results[d] = nones(b.destinations[d], copies), grown(b.results[d], stages*p.Shape.Microbatches)
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

// copies counts those of all stages.
func (p *Pipeline) copies() int { return len(p.Placement.First) + len(p.Placement.Second) }

// copyOf numbers the copy of its stage that an action is on.
func (p *Pipeline) copyOf(a *order.Action) int32 {
	if p.Placement.Second == nil {
		return a.Stage
	}
	return int32(p.Placement.Copy(a.Stage, a.Microbatch))
}

// stagesOn lists the stages of every pipeline rank, last first.
func (p *Pipeline) stagesOn() [][]int32 {
	on := make([][]int32, p.Shape.Ranks)
	for s := p.Placement.Stages() - 1; s >= 0; s-- {
		for _, r := range p.Placement.Ranks(s) {
			on[r] = append(on[r], int32(s))
		}
	}
	return on
}

// grown returns a slice of some length, in the same memory if it suffices.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// nones returns n times None.
func nones(s []int32, n int) []int32 {
	s = grown(s, n)
	for i := range s {
		s[i] = graph.None
	}
	return s
}

// direction returns 0 for what goes to the next stage, and 1 for what comes back.
func direction(k graph.Kind) int {
	if k == graph.Forward {
		return 0
	}
	return 1
}

// makesGradients reports whether a task of that kind completes a microbatch's
// share of a stage's gradients.
func makesGradients(k graph.Kind) bool { return k == graph.Backward || k == graph.WeightGradient }
