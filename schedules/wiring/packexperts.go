package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// expertStream returns the stream of a rank's all-to-alls, made when first needed.
func (k *Packer) expertStream(r int32) int32 {
	if k.experts[r] == graph.None {
		k.experts[r] = k.addStream(r, "experts")
	}
	return k.experts[r]
}

// exchanges reports whether any stage of a rank has experts on other devices.
func (k *Packer) exchanges(r int32) bool {
	for _, s := range k.stagesOn(r) {
		if k.divided(s) {
			return true
		}
	}
	return false
}

// countExchanges counts the all-to-alls of a rank.
func (k *Packer) countExchanges(r int32) (n int32) {
	for _, copy := range k.copiesOn[r] {
		if s, microbatches := k.stage(copy); k.divided(s) {
			n += microbatches * int32(len(k.Exchanges[s].Forward)+len(k.Exchanges[s].Backward))
		}
	}
	return n
}

// leaving counts the buckets that leave with an action, the i-th of its rank.
func (k *Packer) leaving(i int32, a *order.Action) int32 {
	if !makesGradients(a.Kind) || !k.Sync.EveryMicrobatch && k.last[k.copyOf(a)] != i || !k.summing() {
		return 0
	}
	return int32(len(k.Sync.Buckets[a.Stage]))
}

// exchanged adds an action, the i-th of its rank, in the parts between its all-to-alls,
// with these and what else leaves (see rankBuilder.action). index is that of its class.
func (k *Packer) exchanged(r, i int32, a *order.Action, index int32, at ends) ends {
	on := k.copyOf(a)
	c := k.Pipeline.cut(*a, int(k.leaving(i, a)), 0)
	first, before, left := k.exchangedClass(r, a, index, c), int32(graph.None), 0
	for part := range int32(c.parts) {
		dep := k.limit(i, a, part, at.closing)
		switch {
		case dep == graph.None:
			dep = before
		case before != graph.None:
			k.packed.More = append(k.packed.More, 2, dep, before)
			dep = -2 - int32(len(k.packed.More)-3)
		}
		at.computed = k.put(k.compute[r], first+part, dep)
		if int(part) < c.parts-1 {
			before = k.put(k.experts[r], first+int32(c.parts)+part, at.computed)
		} else {
			k.send(r, a, on, index, at.computed)
		}
		for ; left < c.left(int(part)); left++ {
			at.closing = k.sum(r, on, int32(left), at.computed)
		}
	}
	return at
}

// exchangedClass finds the class of the first part of an action; those of the other parts
// follow, and then those of its all-to-alls.
func (k *Packer) exchangedClass(r int32, a *order.Action, index int32, c cut) int32 {
	class := &k.classes[index+int32(len(k.classes))/2]
	if *class != graph.None {
		return *class
	}
	*class = int32(len(k.graph.Tasks))
	t := graph.Task{Kind: a.Kind, Rank: r, Stream: k.compute[r], Stage: a.Stage, Microbatch: a.Microbatch, Peer: graph.None}
	for part := range c.parts {
		t.Part = uint16(part)
		k.add(t)
	}
	t.Kind, t.Stream, t.Peer = graph.AllToAll, k.experts[r], k.graph.Experts.ExchangeGroup(0, r, int32(k.Shape.Ranks))
	for part, bytes := range c.exchanges {
		t.Part, t.Bytes = uint16(c.first+part), bytes*k.samples(a.Microbatch, 0)
		k.add(t)
	}
	return *class
}

// group finds that of a rank of the first replica over which gradients or parameters
// travel: of experts, or of all else.
func (k *Packer) group(r int32, expert bool) int32 {
	if expert {
		return k.graph.Experts.SumGroup(0, r, int32(k.Shape.Ranks))
	}
	return k.groups.stage[r]
}
