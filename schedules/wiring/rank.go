package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A rankBuilder adds the tasks of one rank of the first replica, each with its dependencies on
// tasks of the same rank that have been added before. Streams and tasks that do not exist yet
// are None.
type rankBuilder struct {
	*Builder
	rank int32

	// Streams.
	compute, overlapped int32
	gradients, experts  int32 // of collectives over the replicas, and among experts
	across              int32 // of sums between the groups that divide gradients
	offloads            int32 // of copies to the host and back
	sends               []messageTo

	computed    int32    // the last compute task
	closing     int32    // the last sum, average or update of parameters, which end the step
	broadcasted int32    // the last broadcast, until the first compute task
	exchanged   [2]int32 // by direction: the last all-to-all
	gathered    int32    // the last all-gather for the next compute task
	prefetched  gathers  // the last that have been added
	nextUse     int      // no action before this one, and after the current one, uses gathered parameters
	uses        [2]int32 // the last two compute tasks that use gathered parameters
	summed      [2]int32 // the last gradient sums of the last two backwards
	copies      []int32  // by stage: the last copy to the host or back
}

// A messageTo is a stream of messages to a rank in a direction.
type messageTo struct{ rank, direction, stream int32 }

// addRank adds the tasks of a rank.
func (b *Builder) addRank(r int32) {
	const none = graph.None
	both := [2]int32{none, none}
	b.begin = append(b.begin, int32(b.graph.Len()))
	rb := &rankBuilder{
		Builder: b, rank: r,
		compute: b.graph.AddStream(r, "compute"), overlapped: none, gradients: none, experts: none, across: none,
		offloads: none,
		computed: none, closing: none, broadcasted: none, exchanged: both, gathered: none,
		prefetched: gathers{none, none}, uses: both, summed: both,
	}
	if b.Offload != nil {
		rb.copies = nones(nil, len(b.Offload.Bytes))
	}
	rb.addBroadcasts()
	rb.addZero()
	rb.addGathersAhead()
	actions := b.Order[r]
	for i := 0; i < len(actions); i++ {
		switch {
		case b.plain && !rb.isCut(int32(i), &actions[i]):
			rb.addPlain(&actions[i])
		case b.interleaved(r, i):
			rb.addPair(i)
			i++
		default:
			rb.addAction(i)
		}
	}
	rb.addTail()
}

// open returns a stream of the rank, which it adds if it does not exist yet.
func (b *rankBuilder) open(stream *int32, name string) int32 {
	if *stream == graph.None {
		*stream = b.graph.AddStream(b.rank, name)
	}
	return *stream
}

// isCut reports whether the i-th action of the rank may be cut in a plain pipeline: a first forward
// next to gathers of its parameters, or a last backward whose gradients leave early.
func (b *rankBuilder) isCut(i int32, a *order.Action) bool {
	if a.Kind == graph.Forward {
		return b.first != nil && b.first[a.Stage].microbatch == a.Microbatch
	}
	return b.Sync.Overlap && b.last[b.copyOf(a)] == i && b.makesSums(a.Kind, a.Stage)
}

// addPlain adds an action that is one task, and its message.
func (b *rankBuilder) addPlain(a *order.Action) {
	on := b.copyOf(a)
	variant := b.variant(a, on)
	class := b.entry(int(a.Kind), on, variant)
	if *class == graph.None {
		*class = b.addClasses(b.task(a, a.Kind, b.compute), 1)
	}
	b.computed = b.graph.Put(*class, b.compute, a.Microbatch)
	if a.Kind != graph.WeightGradient {
		b.deliver(a, on, variant, b.computed)
	}
}

// addAction adds the i-th action of the rank, in one part or several, with its messages,
// exchanges, gathers and sums.
func (b *rankBuilder) addAction(i int) {
	p := b.start(i)
	for p.next < p.cut.parts {
		b.addPart(&p)
	}
}

// A progress is the i-th action of a rank while its parts are added.
type progress struct {
	order.Action
	i           int
	next        int // number of the next part
	sent        int // gradient buckets that have left
	cut         cut
	stream      int32
	on, variant int32 // the copy of its stage, and the variant of its class
	ahead       int   // pieces of parameters that are gathered at the same time
	delayed     bool  // weight gradients have tasks of their own
}

// start starts adding the i-th action of the rank. Under ZeRO 3 it gathers the parameters that the
// action uses.
func (b *rankBuilder) start(i int) progress {
	a := &b.Order[b.rank][i]
	p := progress{Action: *a, i: i, stream: b.streamOf(i), on: b.copyOf(a)}
	p.ahead, p.delayed = b.piecesAhead(*a), b.delayed(a.Kind, a.Stage)
	p.variant = b.variant(a, p.on)
	if p.stream == b.overlapped {
		p.variant += int32(b.width) / 2
	}
	b.gatherFor(i)
	buckets := 0
	if b.sumsWith(i, *a) {
		buckets = len(b.Sync.Buckets[a.Stage])
	}
	p.cut = b.cut(*a, buckets, p.ahead)
	return p
}

// addPart adds the next part of an action.
func (b *rankBuilder) addPart(p *progress) {
	last, kind := p.next == p.cut.parts-1, p.Kind
	if p.delayed {
		kind = graph.InputGradient
	}
	i := b.addTask(p, kind)
	if last {
		if b.makesLoss(p.Kind, p.Stage) {
			i = b.addLoss(p)
		}
		b.finish(p, i)
		b.addCopy(p, b.computed)
	} else if p.cut.exchanges != nil {
		b.addExchange(p)
	}
	if p.delayed {
		b.addTask(p, graph.WeightGradient)
	}
	for sent := p.cut.sent(p.next, p.sent); p.sent < sent; p.sent++ {
		b.addSum(p.Stage, p.on, p.sent, p.Microbatch)
	}
	p.next++
	if last && b.Stashing && b.Optimizer && makesGradients(p.Kind) {
		class := b.entry(updates, p.on, 0)
		if *class == graph.None {
			*class = b.addClasses(b.task(&p.Action, graph.Optimizer, b.compute), 1)
		}
		b.graph.Wait(b.graph.Put(*class, b.compute, p.Microbatch), b.computed)
	}
}

// addTask adds the next part of an action as a task of a kind.
func (b *rankBuilder) addTask(p *progress, kind graph.Kind) int32 {
	class := b.entry(b.slotOf(kind, p), p.on, p.variant)
	follows := p.delayed && kind == graph.WeightGradient
	if *class == graph.None {
		*class = b.addClasses(b.task(&p.Action, kind, p.stream), p.cut.parts)
		b.heads[*class] = !follows
	}
	i := b.graph.Put(*class+int32(p.next), p.stream, p.Microbatch)
	var piece, before int32 = graph.None, graph.None
	if p.ahead > 0 {
		piece = b.awaits(p.Stage, b.first[p.Stage].gather, p.next)
	}
	switch {
	case p.next == 0 && !follows:
		before, b.broadcasted = b.broadcasted, graph.None
	case b.divided(p.Stage) && (kind != graph.WeightGradient || b.unsplit(kind, p.Stage)):
		before = b.exchanged[direction(kind)]
	}
	b.graph.Wait(i, b.limit(kind, p), b.gathered, piece, before, b.awaitsCopy(p))
	switch b.computed = i; {
	case b.gathered != graph.None:
		b.uses, b.gathered = [2]int32{b.uses[1], i}, graph.None
	case p.next > 0 && len(b.gathers(kind, p.Stage)) > 0: // a use ends with its last part
		b.uses[1] = i
	}
	return i
}

// limit returns the gradient sum that a compute task waits for under ZeRO 2 and 3, which
// limit how many unsummed gradients a rank holds: those of one microbatch, or of two units. Without
// overlap every task waits for the last sum. With overlap a task that makes
// gradients does; under ZeRO 3 it waits for the sum before the last.
func (b *rankBuilder) limit(kind graph.Kind, p *progress) int32 {
	switch {
	case !b.Sync.EveryMicrobatch || p.next > 0 || b.Sync.Overlap && !b.makesSums(kind, p.Stage):
		return graph.None
	case b.Sync.Overlap && b.Sync.Units != nil:
		return b.summed[0]
	}
	return b.closing
}

// finish delivers the result of an action that ends with task i.
func (b *rankBuilder) finish(p *progress, i int32) {
	if p.Kind != graph.WeightGradient {
		i = b.deliver(&p.Action, p.on, p.variant, i)
	}
	b.cycles.note(int(b.rank), p.i, i)
}
