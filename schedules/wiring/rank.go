package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// rankBuilder adds the tasks of one rank of the first replica, each with what it waits for on its
// own rank. Tasks that are not there yet are None.
type rankBuilder struct {
	*Builder
	rank                              int32
	compute                           int32       // stream
	overlapped, gradients, parameters int32       // streams, None until they are needed
	experts                           int32       // likewise
	sends                             []messageTo // streams of messages
	computed, closing                 int32       // the last compute task; the last that ends the step
	broadcasted                       int32       // the last broadcast, until the first compute task
	exchanged                         [2]int32    // the last all-to-all of an F, and of a B or I
	gathered                          int32       // the last all-gather for the next compute task
	uses                              [2]int32    // the last two compute tasks that an all-gather was for
	summed                            [2]int32    // the last gradient sums of the last two backwards
}

// A messageTo is a stream of messages to a rank in a direction.
type messageTo struct{ rank, direction, stream int32 }

func (b *Builder) rank(r int32) {
	none := [2]int32{graph.None, graph.None}
	b.begin = append(b.begin, int32(b.graph.Len()))
	rb := &rankBuilder{
		Builder: b, rank: r, compute: b.graph.AddStream(r, "compute"), overlapped: graph.None, gradients: graph.None, parameters: graph.None, experts: graph.None,
		computed: graph.None, closing: graph.None, broadcasted: graph.None, exchanged: none, gathered: graph.None, uses: none, summed: none,
	}
	rb.broadcast()
	rb.gatherAhead()
	actions := b.Order[r]
	for i := 0; i < len(actions); i++ {
		switch {
		case b.plain && !rb.isCut(int32(i), &actions[i]):
			rb.addPlain(&actions[i])
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

// isCut reports whether an action, the i-th of its rank, is cut, or anything leaves with it, in a
// plain pipeline.
func (b *rankBuilder) isCut(i int32, a *order.Action) bool {
	if a.Kind == graph.Forward {
		return b.first != nil && b.first[a.Stage].microbatch == a.Microbatch
	}
	return b.Sync.Overlap && b.last[b.copyOf(a)] == i && b.makesSums(a.Kind, a.Stage)
}

// addPlain adds an action that is one task, with its message.
func (b *rankBuilder) addPlain(a *order.Action) {
	on := b.copyOf(a)
	variant := b.variant(a, on)
	class := b.entry(int(a.Kind), on, variant)
	if *class == graph.None {
		*class = b.add(b.task(a, a.Kind, b.compute), 1)
	}
	b.computed = b.graph.Put(*class, b.compute, a.Microbatch)
	if a.Kind != graph.WeightGradient {
		b.deliver(a, on, variant, b.computed)
	}
}

// action adds the tasks of an action, the i-th of its rank, and what leaves
// with them: one task, or its parts. Under ZeRO 3 the parameters that it uses
// are gathered first.
func (b *rankBuilder) action(i int) {
	parts := b.parts(i)
	for parts.next < parts.cut.parts {
		b.addPart(&parts)
	}
}

// parts holds an action, the i-th of its rank, of which some parts have been added.
type parts struct {
	order.Action
	i, next, sent int // left: gradient buckets that have
	cut           cut
	stream        int32
	on, variant   int32 // the copy of its stage, and the variant of its class
	ahead         int   // pieces of parameters that are gathered next to it
	delayed       bool
}

// parts begins to add an action.
func (b *rankBuilder) parts(i int) parts {
	a := &b.Order[b.rank][i]
	p := parts{Action: *a, i: i, stream: b.streamOf(i), on: b.copyOf(a), ahead: b.piecesAhead(*a), delayed: b.delayed(a.Kind, a.Stage)}
	p.variant = b.variant(a, p.on)
	if p.stream == b.overlapped {
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

// addPart adds the next part of an action.
func (b *rankBuilder) addPart(p *parts) {
	last, kind := p.next == p.cut.parts-1, p.Kind
	if p.delayed {
		kind = graph.InputGradient
	}
	i := b.addTask(p, kind)
	if last {
		b.finish(p, i)
	} else if p.cut.exchanges != nil {
		b.exchange(p)
	}
	if p.delayed {
		b.addTask(p, graph.WeightGradient)
	}
	for ; p.sent < p.cut.sent(p.next); p.sent++ {
		b.sum(p.Stage, p.on, p.sent, p.Microbatch)
	}
	p.next++
	if last && b.Stashing && b.Optimizer && makesGradients(p.Kind) {
		class := b.entry(updates, p.on, 0)
		if *class == graph.None {
			*class = b.add(b.task(&p.Action, graph.Optimizer, b.compute), 1)
		}
		b.graph.Wait(b.graph.Put(*class, b.compute, p.Microbatch), b.computed)
	}
}

// addTask adds the next part of an action as a task of a kind.
func (b *rankBuilder) addTask(p *parts, kind graph.Kind) int32 {
	class := b.entry(b.slotOf(kind, p), p.on, p.variant)
	follows := p.delayed && kind == graph.WeightGradient
	if *class == graph.None {
		*class = b.add(b.task(&p.Action, kind, p.stream), p.cut.parts)
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
	case !b.Sync.EveryMicrobatch || p.next > 0 || b.Sync.Overlap && !b.makesSums(kind, p.Stage):
		return graph.None
	case b.Sync.Overlap && b.Sync.Units != nil:
		return b.summed[0]
	}
	return b.closing
}

// finish hands on what an action made that ends with a task.
func (b *rankBuilder) finish(p *parts, i int32) {
	if p.Kind != graph.WeightGradient {
		i = b.deliver(&p.Action, p.on, p.variant, i)
	}
	b.cycles.note(int(b.rank), p.i, i)
}
