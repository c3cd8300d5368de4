package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// classes finds the class of a task without a look at other tasks: by what it is, by the copy of
// its stage, and by the variant of its microbatch.
type classes struct {
	first []int32 // by slot, copy and variant: the class, or that of the first part; or None
	slot  int     // entries of a slot
	width int     // variants
	heads []bool  // by class: whether its tasks begin actions

	sized  []int32 // by microbatch: which of the sizes that differ; empty if none do
	sizes  int
	shared bool   // a stage may hold what the W of the next one needs
	done   []bits // by stage and microbatch, where shared
}

// The slots of a copy beyond those of F, B, I, W and messages, which are their kinds.
const (
	exchanges = int(graph.Send) + iota // all-to-alls of forwards
	_                                  // of backwards
	buckets                            // gradient sums
	units                              // gathers of sharded parameters
	updates                            // by stage
	halves                             // the I of a B whose weight gradients have tasks of their own
	inParts                            // F, B, I and W that are cut
	slots     = inParts + int(graph.WeightGradient) + 1
)

// bits tell from each other the microbatches of a stage whose neighbour is on the same rank.
type bits uint8

const (
	backward bits = 1 << iota // I or B has run
	input                     // I has run
	weight                    // W has run
)

// reset readies the table for a pipeline.
func (c *classes) reset(b *Builder) {
	p, stages := b.Pipeline, b.Placement.Stages()
	c.findSizes(p)
	c.shared = false
	for s := range stages - 1 {
		c.shared = c.shared || p.Placement.Together(s, s+1)
	}
	if c.shared = c.shared && p.Order.Split(); c.shared {
		c.done = grown(c.done, stages*p.Shape.Microbatches)
		clear(c.done)
		b.graph.Late = make([]bool, len(c.done))
	}
	c.width = c.sizes * 2 // by what the neighbour on the rank has done
	if p.Pairs == Overlap {
		c.width *= 2 // by stream
	}
	c.slot = p.copies() * c.width
	c.first, c.heads = nones(c.first, slots*c.slot), c.heads[:0]
}

// findSizes numbers the sizes of microbatches.
func (c *classes) findSizes(p *Pipeline) {
	c.sized, c.sizes = c.sized[:0], 1
	if p.Samples == nil || p.Shards != nil || !slices.ContainsFunc(p.Samples, func(n int64) bool { return n != p.Samples[0] }) {
		return
	}
	var sizes []int64
	for _, n := range p.Samples {
		i := slices.Index(sizes, n)
		if i < 0 {
			i, sizes = len(sizes), append(sizes, n)
		}
		c.sized = append(c.sized, int32(i))
	}
	c.sizes = len(sizes)
}

// entry returns the place of a class, or of the first of consecutive ones.
func (c *classes) entry(slot int, on, variant int32) *int32 {
	return &c.first[slot*c.slot+int(on)*c.width+int(variant)]
}

// slotOf finds the slot of a part of an action.
func (c *classes) slotOf(k graph.Kind, p *parts) int {
	switch {
	case p.delayed && k == graph.InputGradient:
		return halves
	case p.cut.parts > 1:
		return inParts + int(k)
	}
	return int(k)
}

// variant tells from each other the microbatches of a stage that differ in size, or in what the
// neighbour on the same rank has done.
func (b *Builder) variant(a *order.Action, on int32) int32 {
	v := int32(0)
	if b.sizes > 1 {
		v = 2 * b.sized[a.Microbatch]
	}
	if !b.shared {
		return v
	}
	m := b.Shape.Microbatches
	at := int(a.Stage)*m + int(a.Microbatch)
	switch a.Kind {
	case graph.WeightGradient:
		b.done[at] |= weight
		if a.Stage > 0 && b.Placement.Together(int(a.Stage)-1, int(a.Stage)) && b.done[at-m]&backward != 0 {
			b.graph.Late[at] = true
			v++
		}
	case graph.InputGradient, graph.Backward:
		b.done[at] |= backward
		switch {
		case a.Kind == graph.InputGradient:
			b.done[at] |= input
		case b.delayed(a.Kind, a.Stage):
			b.done[at] |= input | weight
		}
		if int(a.Stage) < b.Placement.Stages()-1 && b.destinations[0][on] == graph.None && b.done[at+m]&(input|weight) == input {
			v++
		}
	}
	return v
}

// add adds classes for the parts of a task and returns the first.
func (b *Builder) add(t graph.Task, parts int) int32 {
	first := int32(len(b.graph.Classes))
	for range parts {
		b.graph.Classes, b.heads = append(b.graph.Classes, t), append(b.heads, t.Kind.Compute() && t.Part == 0)
		t.Part++
	}
	return first
}

// task is the task of an action, or its first part, as a task of a kind on a stream.
func (b *rankBuilder) task(a *order.Action, kind graph.Kind, stream int32) graph.Task {
	return graph.Task{Kind: kind, Rank: b.rank, Stream: stream, Stage: a.Stage, Microbatch: a.Microbatch, Peer: graph.None}
}

// addSingle adds a task that is a class of its own, and what it waits for.
func (b *rankBuilder) addSingle(t graph.Task, deps ...int32) int32 {
	t.Rank = b.rank
	i := b.graph.Put(b.add(t, 1), t.Stream, t.Microbatch)
	b.graph.Wait(i, deps...)
	return i
}
