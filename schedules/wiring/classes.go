package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// classes is the table of the classes that many tasks share. A task is looked up by its slot,
// which says what it does, by the copy of its stage, and by the variant of its microbatch.
type classes struct {
	// By slot, copy and variant: the class, of the first part if a task has several parts,
	// whose classes are consecutive. It is None until the first task of the class is added.
	first []int32
	slot  int    // number of entries of a slot
	width int    // number of variants
	heads []bool // by class: its tasks are the first of actions

	sized  []int32 // by microbatch: index of its size among all sizes; empty if all are equal
	sizes  int     // number of different sizes
	shared bool    // backwards are split, and neighbouring stages may be on one rank
	done   []bits  // by stage and microbatch, if shared
}

// The slots of F, B, I, W and messages are their kinds. These are the others.
const (
	exchanges = int(graph.Send) + iota // all-to-alls of forwards
	_                                  // all-to-alls of backwards
	buckets                            // gradient sums
	units                              // gathers of sharded parameters
	updates                            // updates of a stage
	halves                             // the I of a B whose weight gradients have tasks of their own
	losses                             // losses of the last stage
	toHost                             // copies of what a forward keeps to the host
	fromHost                           // copies back
	inParts                            // F, B, I and W that are cut
	slots     = inParts + int(graph.WeightGradient) + 1
)

// bits record what a stage has done with a microbatch. The cost of a W or I may depend on whether
// the neighbouring stage on the same rank still holds what both need.
type bits uint8

const (
	backward bits = 1 << iota // I or B has run
	input                     // I has run
	weight                    // W has run
)

// reset prepares the table for a pipeline.
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
	c.width = c.sizes * 2 // two variants, by what the neighbour on the rank has done
	if p.Pairs == Overlap {
		c.width *= 2 // two streams
	}
	c.slot = p.copies() * c.width
	c.first, c.heads = nones(c.first, slots*c.slot), c.heads[:0]
}

// findSizes numbers the sizes of microbatches.
func (c *classes) findSizes(p *Pipeline) {
	c.sized, c.sizes = c.sized[:0], 1
	differs := func(n int64) bool { return n != p.Samples[0] }
	if p.Samples == nil || p.Shards != nil || !slices.ContainsFunc(p.Samples, differs) {
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

// entry returns the entry of a class in the table.
func (c *classes) entry(slot int, on, variant int32) *int32 {
	return &c.first[slot*c.slot+int(on)*c.width+int(variant)]
}

// slotOf returns the slot of the parts of an action that are tasks of a kind.
func (c *classes) slotOf(k graph.Kind, p *progress) int {
	switch {
	case p.delayed && k == graph.InputGradient:
		return halves
	case p.cut.parts > 1:
		return inParts + int(k)
	}
	return int(k)
}

// variant returns the variant of an action, which depends on the size of its microbatch and on what
// the neighbouring stage on the same rank has done. It records the action.
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
	kind := a.Kind
	switch {
	case !b.unsplit(a.Kind, a.Stage):
	case a.Kind == graph.InputGradient:
		return v
	default:
		kind = graph.Backward
	}
	switch kind {
	case graph.WeightGradient:
		b.done[at] |= weight
		if a.Stage > 0 && b.Placement.Together(int(a.Stage)-1, int(a.Stage)) && b.done[at-m]&backward != 0 {
			b.graph.Late[at] = true
			v++
		}
	case graph.InputGradient, graph.Backward:
		b.done[at] |= backward
		switch {
		case kind == graph.InputGradient:
			b.done[at] |= input
		case b.delayed(a.Kind, a.Stage):
			b.done[at] |= input | weight
		}
		nextIsHere := int(a.Stage) < b.Placement.Stages()-1 && b.destinations[0][on] == graph.None
		if nextIsHere && b.done[at+m]&(input|weight) == input {
			v++
		}
	}
	return v
}

// addClasses adds a class for each part of a task and returns the first.
func (b *Builder) addClasses(t graph.Task, parts int) int32 {
	first := int32(len(b.graph.Classes))
	for range parts {
		b.graph.Classes, b.heads = append(b.graph.Classes, t), append(b.heads, t.Kind.Pass() && t.Part == 0)
		t.Part++
	}
	return first
}

// task returns a task of a kind for an action on a stream.
func (b *rankBuilder) task(a *order.Action, kind graph.Kind, stream int32) graph.Task {
	return graph.Task{
		Kind: kind, Rank: b.rank, Stream: stream,
		Stage: a.Stage, Microbatch: a.Microbatch, Peer: graph.None,
	}
}

// addSingle adds a task with a class of its own, and its dependencies.
func (b *rankBuilder) addSingle(t graph.Task, deps ...int32) int32 {
	t.Rank = b.rank
	i := b.graph.Put(b.addClasses(t, 1), t.Stream, t.Microbatch)
	b.graph.Wait(i, deps...)
	return i
}
