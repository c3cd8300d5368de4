package plans

import (
	"iter"
	"slices"
	"time"

	"psim/schedules/graph"
)

// never stands for a time later than any step.
const never = time.Duration(1) << 62

// bounds hold times that no step is shorter than, by the kind of its order.
type bounds [orderKinds]time.Duration

// A rankBound is what bounds the step of one rank from below.
type rankBound struct {
	work          time.Duration // all its forwards and backwards
	exchanged     time.Duration // of which pairs may hide so much: what experts exchange
	start         time.Duration // before the first of its forwards can start
	wayBack       time.Duration // after its last backward, if that makes input gradients
	firstBackward time.Duration // before the first of its backwards can start
	exposedSums   time.Duration // of gradients over replicas, that its last backward leaves behind
	lastSum       time.Duration // the last of these alone
	allSums       time.Duration // all sums of the step, one after another
	update        time.Duration // average, update and the gathering of parameters after it
}

// A route is what a microbatch meets on its way through the stages of a replica.
type route struct {
	at          graph.Placement
	passes      []passTimes     // by stage
	there, back []time.Duration // messages, by the stage that sends them; nil: none are known
}

// A passTimes is what a stage takes for a microbatch.
type passTimes struct {
	forward, backward, input, weight time.Duration
	exchanged                        time.Duration // in a forward and a backward, which is part of them
}

// bound finds times that no step is shorter than: a rank gets its first microbatch when that has
// come through the stages before, has all its work to do, and then what it made has to
// go back, and its gradients to be summed. Messages and collectives queue for nothing
// here, hosts launch for nothing, and all but the last of the sums are hidden.
func (u *stageGroup) bound() {
	ranks := newRankBounds(u.Shape.Ranks)
	for r := range ranks {
		ranks[r].exposedSums, ranks[r].lastSum = never, never
	}
	for microbatch, count := range copies(u.graph.Placement, u.Shape.Microbatches) {
		way := u.route(microbatch)
		way.bound(ranks, microbatch, count)
		for s := range way.passes {
			p, r := &way.passes[s], way.at.Rank(int32(s), microbatch)
			u.sums(&ranks[r], r, s, count, max(p.backward, p.weight))
		}
	}
	for r := range ranks {
		u.update(int32(r), &ranks[r])
	}
	u.bounds = longest(ranks, u.graph.Placement)
}

// newRankBounds returns bounds that nothing has shortened yet.
func newRankBounds(ranks int) []rankBound {
	return slices.Repeat([]rankBound{{start: never, wayBack: never, firstBackward: never}}, ranks)
}

// longest finds the rank that takes the longest.
func longest(ranks []rankBound, at graph.Placement) (all bounds) {
	start := at.Ranks(0)
	back := ranks[start[0]].update
	for _, s := range start {
		back = min(back, ranks[s].update)
	}
	var one time.Duration // rank after another
	for r := range ranks {
		b := &ranks[r]
		one += b.work
		for k := range all {
			done := b.start + b.work
			if orderKind(k) == pairedOrder {
				done -= b.exchanged
			}
			all[k] = max(all[k], max(done+b.lastSum, done+b.exposedSums, b.firstBackward+b.allSums)+b.update)
			if orderKind(k) == wholeOrder || orderKind(k) == serialOrder {
				all[k] = max(all[k], done+b.wayBack+back)
			}
		}
	}
	all[serialOrder] = max(all[serialOrder], one+back)
	return all
}

// copies goes through the copies of the stages: the first microbatch of each, and how many
// it has.
func copies(at graph.Placement, microbatches int) iter.Seq2[int32, int32] {
	return func(yield func(int32, int32) bool) {
		all := int32(microbatches)
		if at.Second == nil || at.Half >= all {
			yield(0, all)
			return
		}
		_ = yield(0, at.Half) && yield(at.Half, all-at.Half)
	}
}

// route prices the way of a microbatch.
func (u *stageGroup) route(microbatch int32) route {
	n := len(u.Workload.Stages)
	w := route{u.graph.Placement, make([]passTimes, n), make([]time.Duration, n), make([]time.Duration, n)}
	for s := range n {
		busy := func(k graph.Kind) time.Duration {
			return u.task(k, w.at.Rank(int32(s), microbatch), s, microbatch).Busy
		}
		there, back := u.exchange(s, microbatch)
		w.passes[s] = passTimes{busy(graph.Forward) + there, busy(graph.Backward) + back, busy(graph.InputGradient) + back, busy(graph.WeightGradient), there + back}
		w.there[s] = released(u.message(graph.SendForward, s, s+1, microbatch))
		w.back[s] = released(u.message(graph.SendBackward, s, s-1, microbatch))
	}
	return w
}

// released returns when what a message brings is there.
func released(c graph.Cost) time.Duration { return c.Busy + c.Delay }

// bound goes with a microbatch through the stages and back, for all of its copy.
func (w *route) bound(ranks []rankBound, microbatch, count int32) {
	n := len(w.passes)
	if w.there == nil {
		w.there, w.back = make([]time.Duration, n), make([]time.Duration, n)
	}
	var there, back, home time.Duration // forwards; what goes back, in the end; whole backwards
	for s := range n {
		p, b := &w.passes[s], &ranks[w.at.Rank(int32(s), microbatch)]
		b.start, b.wayBack = min(b.start, there), min(b.wayBack, home)
		b.work += time.Duration(count) * (p.forward + min(p.backward, p.input+p.weight))
		b.exchanged += time.Duration(count) * p.exchanged
		there += p.forward + w.there[s]
		home += p.backward
		if s+1 < n {
			home += w.back[s+1]
		}
	}
	for s := n - 1; s >= 0; s-- {
		p, b := &w.passes[s], &ranks[w.at.Rank(int32(s), microbatch)]
		b.firstBackward = min(b.firstBackward, there+back)
		back += min(p.backward, p.input) + w.back[s]
	}
}

// sums adds what the replicas sum of a stage, whose last backward takes so long. The
// sums of the stage whose backward is the last of the rank begin no earlier than that.
func (u *stageGroup) sums(b *rankBound, rank int32, stage int, count int32, backward time.Duration) {
	var total, last time.Duration
	if stage < len(u.sync.Buckets) {
		for part, bytes := range u.sync.Buckets[stage] {
			last = u.collective(u.sync.Kind(), rank, stage, part, bytes, u.sync.Experts != nil && u.sync.Experts[stage][part])
			total += last
		}
	}
	b.exposedSums, b.lastSum = min(b.exposedSums, total-backward), min(b.lastSum, last)
	if u.sync.EveryMicrobatch {
		total *= time.Duration(count)
	}
	b.allSums += total
}

// collective prices a collective over the replicas.
func (u *stageGroup) collective(k graph.Kind, rank int32, stage, part int, bytes int64, expert bool) time.Duration {
	return u.costs.Task(&graph.Task{
		Kind: k, Part: uint16(part), Rank: rank, Stage: int32(stage), Microbatch: graph.None, Peer: u.group(rank, expert), Bytes: bytes,
	}).Busy
}

// update adds what comes after the gradients of a rank.
func (u *stageGroup) update(rank int32, b *rankBound) {
	b.update = u.costs.Task(&graph.Task{Kind: graph.Optimizer, Rank: rank, Stage: graph.None, Microbatch: graph.None, Peer: graph.None}).Busy
	if !u.sync.Sharded || u.sync.Units != nil || u.sync.Ahead != nil {
		return
	}
	for stage, bytes := range u.sync.Parameters {
		if u.graph.Placement.Holds(rank, int32(stage)) {
			b.update += u.collective(graph.AllGather, rank, stage, 0, bytes, false)
			if u.sync.ExpertParameters != nil && u.sync.ExpertParameters[stage] > 0 {
				b.update += u.collective(graph.AllGather, rank, stage, 0, u.sync.ExpertParameters[stage], true)
			}
		}
	}
}
