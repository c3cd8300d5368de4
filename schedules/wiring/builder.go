package wiring

import (
	"fmt"

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
	to       [2][]int32 // by direction and copy: the rank where results go; None if they stay
	made     [2][]int32 // by direction, stage and microbatch: the task after which a result is there
	counts   [4][]int32 // by kind of action and copy: how many there are
	last     []int32    // by copy: the action of its rank that completes its gradients
	first    []ahead    // by stage, where parameters are gathered ahead; else nil
	stagesOn [][]int32  // by rank, last first: the order in which gradients are complete
	begin    []int32    // by rank: its first task; and the end
	deps     []int32    // of the task at hand
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
	b.groups, b.first, b.stagesOn, b.begin = p.groups(g), p.firstForwards(), p.stagesOn(), b.begin[:0]
	every := p.Sync.EveryMicrobatch && p.Sync.active(p.Shape)
	b.plain = p.Exchanges == nil && p.Sync.Units == nil && p.Sync.Broadcast == nil && !every && !p.Stashing && !p.Synchronous && p.Pairs != Overlap
	stages, copies := p.Placement.Stages(), p.copies()
	for d := range b.to {
		b.to[d], b.made[d] = filled(b.to[d], copies), grown(b.made[d], stages*p.Shape.Microbatches)
	}
	for s := range stages - 1 {
		if p.Placement.Together(s, s+1) {
			continue
		}
		b.to[0][s], b.to[1][s+1] = p.Placement.First[s+1], p.Placement.First[s]
		if p.Placement.Second != nil {
			b.to[0][stages+s], b.to[1][stages+s+1] = p.Placement.Second[s+1], p.Placement.Second[s]
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

// filled returns n times None.
func filled(s []int32, n int) []int32 {
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

// rankBuilder adds the tasks of one rank of the first replica, each with what it waits for on its
// own rank. Tasks that are not there yet are None.
type rankBuilder struct {
	*Builder
	rank                          int32
	compute                       int32       // stream
	beside, gradients, parameters int32       // streams, None until they are needed
	experts                       int32       // likewise
	sends                         []messageTo // streams of messages
	computed, closing             int32       // the last compute task; the last that ends the step
	broadcasted                   int32       // the last broadcast, until the first compute task
	exchanged                     [2]int32    // the last all-to-all of an F, and of a B or I
	gathered                      int32       // the last all-gather for the next compute task
	uses                          [2]int32    // the last two compute tasks that an all-gather was for
	summed                        [2]int32    // the last gradient sums of the last two backwards
}

// A messageTo is a stream of messages to a rank in a direction.
type messageTo struct{ rank, direction, stream int32 }

func (b *Builder) rank(r int32) {
	none := [2]int32{graph.None, graph.None}
	b.begin = append(b.begin, int32(b.graph.Len()))
	rb := &rankBuilder{
		Builder: b, rank: r, compute: b.graph.AddStream(r, "compute"), beside: graph.None, gradients: graph.None, parameters: graph.None, experts: graph.None,
		computed: graph.None, closing: graph.None, broadcasted: graph.None, exchanged: none, gathered: graph.None, uses: none, summed: none,
	}
	rb.broadcast()
	rb.gatherAhead()
	actions := b.Order[r]
	for i := 0; i < len(actions); i++ {
		switch {
		case b.plain && !rb.cuts(int32(i), &actions[i]):
			rb.one(&actions[i])
		case b.interleaved(r, i):
			rb.pair(i)
			i++
		default:
			rb.action(i)
		}
	}
	rb.tail()
}

// open returns one of the rank's streams, made when first needed.
func (b *rankBuilder) open(of *int32, name string) int32 {
	if *of == graph.None {
		*of = b.graph.AddStream(b.rank, name)
	}
	return *of
}

// cuts reports whether an action, the i-th of its rank, is cut, or anything leaves with it, in a
// plain pipeline.
func (b *rankBuilder) cuts(i int32, a *order.Action) bool {
	if a.Kind == graph.Forward {
		return b.first != nil && b.first[a.Stage].microbatch == a.Microbatch
	}
	return b.Sync.Overlap && b.last[b.copyOf(a)] == i && b.sums(a.Kind, a.Stage)
}

// one adds an action that is one task, with its message.
func (b *rankBuilder) one(a *order.Action) {
	on := b.copyOf(a)
	variant := b.variant(a, on)
	class := b.at(int(a.Kind), on, variant)
	if *class == graph.None {
		*class = b.add(b.pass(a, a.Kind, b.compute), 1)
	}
	b.computed = b.graph.Put(*class, b.compute, a.Microbatch)
	if a.Kind != graph.WeightGradient {
		b.hand(a, on, variant, b.computed)
	}
}

// action adds the tasks of an action, the i-th of its rank, and what leaves
// with them: one task, or its parts. Under ZeRO 3 the parameters that it uses
// are gathered first.
func (b *rankBuilder) action(i int) {
	parts := b.parts(i)
	for parts.next < parts.cut.parts {
		b.part(&parts)
	}
}

// parts holds an action, the i-th of its rank, of which some parts have been added.
type parts struct {
	order.Action
	i, next, left int // left: gradient buckets that have
	cut           cut
	stream        int32
	on, variant   int32 // the copy of its stage, and the variant of its class
	ahead         int   // pieces of parameters that are gathered next to it
	delayed       bool
}

// parts begins to add an action.
func (b *rankBuilder) parts(i int) parts {
	a := &b.Order[b.rank][i]
	p := parts{Action: *a, i: i, stream: b.streamOf(i), on: b.copyOf(a), ahead: b.besides(*a), delayed: b.delayed(a.Kind, a.Stage)}
	p.variant = b.variant(a, p.on)
	if p.stream == b.beside {
		p.variant += int32(b.width) / 2
	}
	b.gather(&p)
	buckets := 0
	if b.leaves(i, *a) {
		buckets = len(b.Sync.Buckets[a.Stage])
	}
	p.cut = b.cut(*a, buckets, p.ahead)
	return p
}

// part adds the next part of an action.
func (b *rankBuilder) part(p *parts) {
	last, kind := p.next == p.cut.parts-1, p.Kind
	if p.delayed {
		kind = graph.InputGradient
	}
	i := b.passes(p, kind)
	if last {
		b.ends(p, i)
	} else if p.cut.exchanges != nil {
		b.exchange(p)
	}
	if p.delayed {
		b.passes(p, graph.WeightGradient)
	}
	for ; p.left < p.cut.left(p.next); p.left++ {
		b.sum(p.Stage, p.on, p.left, p.Microbatch)
	}
	p.next++
	if last && b.Stashing && b.Optimizer && makesGradients(p.Kind) {
		class := b.at(updates, p.on, 0)
		if *class == graph.None {
			*class = b.add(b.pass(&p.Action, graph.Optimizer, b.compute), 1)
		}
		b.graph.Wait(b.graph.Put(*class, b.compute, p.Microbatch), b.computed)
	}
}

// passes adds the next part of an action as a task of a kind.
func (b *rankBuilder) passes(p *parts, kind graph.Kind) int32 {
	class := b.at(b.slotOf(kind, p), p.on, p.variant)
	follows := p.delayed && kind == graph.WeightGradient
	if *class == graph.None {
		*class = b.add(b.pass(&p.Action, kind, p.stream), p.cut.parts)
		b.heads[*class] = !follows
	}
	i := b.graph.Put(*class+int32(p.next), p.stream, p.Microbatch)
	limit, awaited := b.limit(kind, p), int32(graph.None)
	if p.ahead > 0 {
		awaited = b.awaits(p.Stage, b.first[p.Stage].gather, p.next)
	}
	switch {
	case p.next == 0 && !follows:
		b.graph.Wait(i, limit, b.gathered, awaited, b.broadcasted)
		b.broadcasted = graph.None
	case b.divided(p.Stage) && kind != graph.WeightGradient:
		b.graph.Wait(i, limit, b.gathered, awaited, b.exchanged[direction(kind)])
	default:
		b.graph.Wait(i, limit, b.gathered, awaited)
	}
	if b.computed = i; b.gathered != graph.None {
		b.uses, b.gathered = [2]int32{b.uses[1], i}, graph.None
	}
	return i
}

// limit finds the gradient sum that a compute task waits for under ZeRO 2 and 3,
// where the whole gradients of one microbatch, or two units, may be live. Without
// overlap any task waits for the sums of those before; with it the next one
// that makes gradients does, or under ZeRO 3 the next but one.
func (b *rankBuilder) limit(kind graph.Kind, p *parts) int32 {
	switch {
	case !b.Sync.EveryMicrobatch || p.next > 0 || b.Sync.Overlap && !b.sums(kind, p.Stage):
		return graph.None
	case b.Sync.Overlap && b.Sync.Units != nil:
		return b.summed[0]
	}
	return b.closing
}

// ends hands on what an action made that ends with a task.
func (b *rankBuilder) ends(p *parts, i int32) {
	if p.Kind != graph.WeightGradient {
		i = b.hand(&p.Action, p.on, p.variant, i)
	}
	b.cycles.ends(int(b.rank), p.i, i)
}

// hand sends what a task of an action made, if another rank needs it, and notes after which task
// it is there.
func (b *rankBuilder) hand(a *order.Action, on, variant, i int32) int32 {
	d := direction(a.Kind)
	if to := b.to[d][on]; to != graph.None {
		i = b.message(a, on, variant, to)
	}
	b.made[d][int(a.Stage)*b.Shape.Microbatches+int(a.Microbatch)] = i
	return i
}

// message adds the send of what an action made to a rank.
func (b *rankBuilder) message(a *order.Action, on, variant, to int32) int32 {
	kind, boundary := graph.SendForward, a.Stage
	if a.Kind != graph.Forward {
		kind, boundary = graph.SendBackward, a.Stage-1
	}
	class := b.at(int(kind), on, variant)
	if *class == graph.None {
		*class = b.add(graph.Task{
			Kind: kind, Rank: b.rank, Stream: b.streamTo(to, direction(a.Kind)), Stage: a.Stage, Microbatch: a.Microbatch,
			Peer: to, Bytes: b.payload(kind, boundary, a.Microbatch, 0),
		}, 1)
	}
	i := b.graph.Put(*class, b.graph.Classes[*class].Stream, a.Microbatch)
	b.graph.Rows[i].After = i - 1
	return i
}

// streamTo returns the stream of messages to a rank in a direction.
func (b *rankBuilder) streamTo(to int32, direction int) int32 {
	for _, s := range b.sends {
		if s.rank == to && int(s.direction) == direction {
			return s.stream
		}
	}
	stream := b.graph.AddStream(b.rank, streamName(direction, to))
	b.sends = append(b.sends, messageTo{to, int32(direction), stream})
	return stream
}

func streamName(direction int, to int32) string {
	return fmt.Sprintf("send %s to %d", [2]string{"F", "B"}[direction], to)
}

// payload gives the size in bytes of a message across a boundary of a replica.
func (p *Pipeline) payload(k graph.Kind, boundary, microbatch int32, replica int) int64 {
	if p.Boundaries == nil {
		return 0
	}
	bytes := p.Boundaries[boundary].Forward
	if k == graph.SendBackward {
		bytes = p.Boundaries[boundary].Backward
	}
	return bytes * p.samples(microbatch, replica)
}

// samples returns the size of a microbatch of a replica.
func (p *Pipeline) samples(microbatch int32, replica int) int64 {
	switch {
	case p.Shards != nil:
		return p.Shards[replica]
	case p.Samples != nil:
		return p.Samples[microbatch]
	}
	return 1
}
