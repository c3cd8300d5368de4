package wiring

import (
	"errors"
	"fmt"
	"math"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// Exchanges lists the all-to-alls of a stage whose layers have experts on other devices:
// a dispatch and a combine for every such layer. They cut a pass into parts. Each part
// waits for the all-to-all before it:
//
//	compute    F.0        F.1          F.2
//	experts       dispatch    combine
//
// A W has no all-to-alls and is not cut, unless it is a whole backward (Pipeline.Unsplit). The zero
// value is for stages without experts.
type Exchanges struct {
	// Forward lists the bytes per sample that a device sends in the all-to-alls of an F, in
	// order; Backward lists those of a B or I.
	Forward, Backward []int64
	// Leaves[k] is the part of a B with which gradient bucket k is complete.
	Leaves []int
	// Awaits[k] is the number of pieces of Sync.Ahead that part k of the first F needs.
	Awaits []int
}

// exchanged lists the all-to-alls of a kind of action of a stage that has some.
func (p *Pipeline) exchanged(k graph.Kind, stage int32) []int64 {
	e := &p.Exchanges[stage]
	switch {
	case k == graph.Forward:
		return e.Forward
	case (k == graph.WeightGradient) != p.unsplit(k, stage):
		return nil
	}
	return e.Backward
}

// divided reports whether a stage has experts on other devices.
func (p *Pipeline) divided(stage int32) bool {
	return p.Exchanges != nil && len(p.Exchanges[stage].Forward) > 0
}

// delayed reports whether an action is a B whose weight gradients have tasks of their own.
func (p *Pipeline) delayed(k graph.Kind, stage int32) bool {
	return p.DelayWeights && k == graph.Backward && p.divided(stage)
}

// A cut says how an action is cut into parts, and what is sent after each.
type cut struct {
	parts     int
	exchanges []int64 // by part except the last: bytes per sample of the all-to-all after it; or nil
	first     int     // number of the first all-to-all among those of the stage
	buckets   int     // gradient buckets that are sent
	// leaves has, by bucket, the part after which it is sent. If it is nil, bucket k is sent after
	// part k if there are as many parts as buckets, and otherwise after the last part.
	leaves []int
}

// cut returns how an action is cut that completes a number of gradient buckets, while ahead pieces
// of parameters are gathered.
func (p *Pipeline) cut(a order.Action, buckets, ahead int) cut {
	c := cut{parts: 1, buckets: buckets}
	if p.divided(a.Stage) {
		e := &p.Exchanges[a.Stage]
		if c.exchanges = p.exchanged(a.Kind, a.Stage); a.Kind != graph.Forward {
			c.first = len(e.Forward)
		}
		whole := a.Kind == graph.Backward || a.Kind == graph.WeightGradient && p.unsplit(a.Kind, a.Stage)
		if p.Sync.Overlap && whole {
			c.leaves = e.Leaves
		}
		c.parts += len(c.exchanges)
		return c
	}
	if p.Sync.Overlap && p.Sync.Units == nil {
		c.parts = max(1, buckets)
	}
	c.parts = max(c.parts, ahead)
	return c
}

// sent returns the number of buckets that have been sent after a part, given how many have been sent after the
// part before.
func (c *cut) sent(part, before int) int {
	switch {
	case part == c.parts-1:
		return c.buckets
	case c.leaves != nil && c.buckets > 0:
		n := before
		for n < c.buckets && c.leaves[n] <= part {
			n++
		}
		return n
	case c.exchanges == nil && c.parts == c.buckets:
		return part + 1
	}
	return 0
}

// expertGroups adds the groups of experts (see graph.Experts).
func (p *Pipeline) expertGroups(g *graph.Graph) {
	if p.Exchanges == nil {
		return
	}
	span, ranks := max(1, p.ExpertSpan), p.Shape.Ranks
	g.Experts = graph.Experts{Span: int32(span), Exchange: int32(len(g.Groups)), Sum: graph.None}
	// ranksOf lists the same rank of the replicas from, from + step, … before to.
	ranksOf := func(rank, from, to, step int) (group []int32) {
		for d := from; d < to; d += step {
			group = append(group, int32(d*ranks+rank))
		}
		return group
	}
	for block := 0; block < p.Shape.Replicas; block += span {
		for r := range ranks {
			g.AddWide(ranksOf(r, block, block+span, 1), max(1, p.ExpertWidth))
		}
	}
	if p.Sync.Experts == nil || !p.Sync.active(p.Shape) {
		return
	}
	g.Experts.Sum = int32(len(g.Groups))
	for place := range span {
		for r := range ranks {
			g.AddWide(ranksOf(r, place, p.Shape.Replicas, span), max(1, p.Sync.ExpertWidth))
		}
	}
}

// addExchange adds the all-to-all after the part of an action that has just been added.
func (b *rankBuilder) addExchange(p *progress) {
	d := direction(p.Kind)
	stream, class := b.open(&b.experts, "experts"), b.entry(exchanges+d, p.on, p.variant)
	if *class == graph.None {
		*class = int32(len(b.graph.Classes))
		for k, bytes := range p.cut.exchanges {
			t := b.task(&p.Action, graph.AllToAll, stream)
			t.Part, t.Bytes = uint16(p.cut.first+k), bytes*b.samples(p.Microbatch, 0)
			t.Peer = b.graph.Experts.ExchangeGroup(0, b.rank, int32(b.Shape.Ranks))
			b.addClasses(t, 1)
		}
	}
	b.exchanged[d] = b.graph.Put(*class+int32(p.next), stream, p.Microbatch)
	b.graph.Wait(b.exchanged[d], b.computed)
}

// exchanging counts the tasks that all-to-alls add to an action: the all-to-alls and the additional
// parts.
func (p *Pipeline) exchanging(k graph.Kind, stage int32) int64 {
	if p.Exchanges == nil {
		return 0
	}
	n := int64(len(p.exchanged(k, stage)))
	if p.delayed(k, stage) {
		return 3*n + 1
	}
	return 2 * n
}

// checkExchanges reports all-to-alls that do not match the stages, and groups of experts
// that do not divide the replicas.
func (p *Pipeline) checkExchanges() error {
	span := max(1, p.ExpertSpan)
	switch {
	case p.Exchanges == nil:
		return nil
	case len(p.Exchanges) != p.Placement.Stages():
		return fmt.Errorf("all-to-alls of %d stages; there are %d", len(p.Exchanges), p.Placement.Stages())
	case p.Shape.Replicas%span != 0:
		return fmt.Errorf("experts over %d replicas each; there are %d, and one must divide the other",
			span, p.Shape.Replicas)
	case p.Unsplit && p.DelayWeights:
		return errors.New("weight gradients between all-to-alls go with backwards that are split in every stage")
	case p.Shards != nil && span > 1, p.WholeLast, p.Stashing:
		return errors.New("experts on several devices go with equal replicas and microbatches one by one")
	case p.Sync.Units != nil && (p.Sync.ShardSpan > 0 || p.DelayWeights || p.Pairs != Serial):
		return errors.New("sharded experts on several devices go with shares among all replicas and whole passes")
	}
	for s := range p.Exchanges {
		if err := p.checkCuts(s); err != nil {
			return fmt.Errorf("stage %d: %w", s, err)
		}
	}
	return nil
}

// checkCuts reports lists of a stage's all-to-alls whose lengths do not match.
func (p *Pipeline) checkCuts(stage int) error {
	e := &p.Exchanges[stage]
	switch {
	case (len(e.Forward) == 0) != (len(e.Backward) == 0):
		return fmt.Errorf("%d all-to-alls forward and %d backward: there must be some in both, or none",
			len(e.Forward), len(e.Backward))
	case len(e.Forward)+len(e.Backward) >= math.MaxUint16:
		return fmt.Errorf("%d all-to-alls; at most %d are supported", len(e.Forward)+len(e.Backward), math.MaxUint16)
	case len(e.Forward) == 0:
		return nil
	case p.Sync.Buckets != nil && p.Sync.Overlap && len(e.Leaves) != len(p.Sync.Buckets[stage]):
		return fmt.Errorf("%d gradient buckets, and parts after which %d leave",
			len(p.Sync.Buckets[stage]), len(e.Leaves))
	case p.Sync.Ahead != nil && len(e.Awaits) != len(e.Forward)+1:
		return fmt.Errorf("a forward in %d parts, but %d of them say what they wait for",
			len(e.Forward)+1, len(e.Awaits))
	}
	return nil
}
