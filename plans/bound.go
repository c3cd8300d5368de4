package plans

import (
	"iter"
	"slices"
	"time"

	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// forever is longer than any step.
const forever = time.Duration(1) << 62

// bounds hold, for every kind of order, a time that no step is shorter than.
type bounds [orderKinds]time.Duration

// A rankBound holds the lower bounds of one rank that together bound its step.
type rankBound struct {
	work          time.Duration // all its forwards and backwards
	exchanged     time.Duration // the part of work that pairs may hide: exchanges with experts
	start         time.Duration // before the first of its forwards can start
	wayBack       time.Duration // after its last backward, if that makes input gradients
	firstBackward time.Duration // before the first of its backwards can start
	exposedSums   time.Duration // sums of gradients that remain after its last backward
	lastSum       time.Duration // the last of these sums
	allSums       time.Duration // all sums of the step, one after another
	update        time.Duration // gradient norm, optimizer, and the gathers after it
}

// A route is the way of a microbatch through the stages of a replica.
type route struct {
	at          graph.Placement
	passes      []passTimes     // by stage
	there, back []time.Duration // messages until they arrive, by the sending stage; nil if unknown
	// How long messages keep their stream.
	sendThere, sendBack []time.Duration
}

// passTimes are the times of a stage, or of some layers, for one microbatch.
type passTimes struct {
	forward, backward, input, weight time.Duration
	exchanged                        time.Duration // the exchanges in a forward and a backward
	there, back                      time.Duration // each of the two
}

// bound bounds the step by prices. A rank gets its first microbatch after that has passed
// the earlier stages. Then it has all its work to do. After that its results travel back,
// and its gradients are summed. The bound ignores queues of messages and collectives and
// the host's time to launch, and hides all sums but the last.
func (g *stagePrices) bound() bounds {
	ranks := newRankBounds(g.Shape.Ranks)
	for r := range ranks {
		ranks[r].exposedSums, ranks[r].lastSum = forever, forever
	}
	after := slices.Repeat([]time.Duration{forever}, len(ranks)) // all sums that follow the last backward
	for microbatch, count := range microbatchesByCopy(g.graph.Placement, g.Shape.Microbatches) {
		way := g.route(microbatch)
		way.bound(ranks, microbatch, count)
		g.routes = append(g.routes, way)
		for s := range way.passes {
			p, r := &way.passes[s], way.at.Rank(int32(s), microbatch)
			total, last := g.sums(r, s)
			b := &ranks[r]
			// The sums of the rank's last stage start after its last backward or later.
			b.exposedSums = min(b.exposedSums, total-max(p.backward, p.weight))
			b.lastSum = min(b.lastSum, last)
			if g.sync.Overlap {
				after[r] = min(after[r], last)
			} else {
				after[r] = min(after[r], total)
			}
			if g.sync.EveryMicrobatch {
				total *= time.Duration(count)
			}
			b.allSums += total
		}
	}
	for r := range ranks {
		ranks[r].update = g.update(int32(r))
	}
	g.tails.add(ranks, after, g.graph.Placement)
	return longest(ranks, g.graph.Placement)
}

// newRankBounds returns the bounds of ranks before any route is added.
func newRankBounds(ranks int) []rankBound {
	return slices.Repeat([]rankBound{{start: forever, wayBack: forever, firstBackward: forever}}, ranks)
}

// longest returns the bound of the rank with the longest step.
func longest(ranks []rankBound, at graph.Placement) (all bounds) {
	update := firstUpdate(ranks, at)
	var serial time.Duration // the work of all ranks, one after another
	for r := range ranks {
		b := &ranks[r]
		serial += b.work
		for k := range all {
			done := b.start + b.work
			if orderKind(k) == pairedOrder {
				done -= b.exchanged
			}
			all[k] = max(all[k], max(done+b.lastSum, done+b.exposedSums, b.firstBackward+b.allSums)+b.update)
			if orderKind(k) == wholeOrder || orderKind(k) == serialOrder {
				all[k] = max(all[k], done+b.wayBack+update)
			}
		}
	}
	all[serialOrder] = max(all[serialOrder], serial+update)
	return all
}

// firstUpdate returns the shortest update of a rank of the first stage.
func firstUpdate(ranks []rankBound, at graph.Placement) time.Duration {
	update := forever
	for _, r := range at.Ranks(0) {
		update = min(update, ranks[r].update)
	}
	return update
}

// microbatchesByCopy yields, for each copy of the stages, its first microbatch and the
// number of its microbatches.
func microbatchesByCopy(at graph.Placement, microbatches int) iter.Seq2[int32, int32] {
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
func (g *stagePrices) route(microbatch int32) route {
	n := len(g.Workload.Stages)
	w := route{
		at: g.graph.Placement, passes: make([]passTimes, n), there: make([]time.Duration, n),
		back: make([]time.Duration, n), sendThere: make([]time.Duration, n), sendBack: make([]time.Duration, n),
	}
	for s := range n {
		busy := func(k graph.Kind) time.Duration {
			return g.task(k, w.at.Rank(int32(s), microbatch), s, microbatch).Busy
		}
		there, back := g.exchange(s, microbatch)
		w.passes[s] = passTimes{
			forward: busy(graph.Forward) + there, backward: busy(graph.Backward) + back,
			input: busy(graph.InputGradient) + back, weight: busy(graph.WeightGradient),
			exchanged: there + back, there: there, back: back,
		}
		activations := g.message(graph.SendForward, s, s+1, microbatch)
		gradients := g.message(graph.SendBackward, s, s-1, microbatch)
		w.there[s], w.sendThere[s] = arrival(activations), activations.Busy
		w.back[s], w.sendBack[s] = arrival(gradients), gradients.Busy
	}
	return w
}

// arrival returns the time from the start of a message to its arrival.
func arrival(c graph.Cost) time.Duration { return c.Busy + c.Delay }

// bound follows the first microbatch of a copy through the stages and back, and adds the
// work of all count microbatches of the copy.
func (w *route) bound(ranks []rankBound, microbatch, count int32) {
	n := len(w.passes)
	if w.there == nil {
		w.there, w.back = make([]time.Duration, n), make([]time.Duration, n)
	}
	// Forwards so far; the shortest way back so far; and whole backwards of the stages
	// before, down to the first.
	var there, back, home time.Duration
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

// sums returns the time of all sums of a stage's gradients over the replicas, and of the
// last one.
func (g *stagePrices) sums(rank int32, stage int) (total, last time.Duration) {
	if stage >= len(g.sync.Buckets) {
		return 0, 0
	}
	buckets, experts := g.sync.Buckets[stage], []bool(nil)
	if g.sync.Experts != nil {
		experts = g.sync.Experts[stage]
	}
	expert := func(part int) bool { return experts != nil && experts[part] }
	for part, bytes := range buckets {
		// Most buckets are as large as the one before, and take as long.
		if part == 0 || bytes != buckets[part-1] || expert(part) != expert(part-1) {
			sum := graph.Task{Kind: g.sync.Kind(), Rank: rank, Stage: int32(stage), Bytes: bytes}
			last = g.collective(sum, expert(part))
		}
		total += last
	}
	return total, last
}

// collective prices a collective over the replicas, or over the replicas of an expert.
func (g *stagePrices) collective(t graph.Task, expert bool) time.Duration {
	t.Microbatch, t.Peer = graph.None, g.group(t.Rank, expert)
	if g.sync.Units != nil && g.sync.ShardSpan > 0 { // what the groups sum of each other comes on top
		t.Peer = g.graph.Sharing.Group(0, t.Rank, int32(g.Shape.Ranks))
	}
	return g.costs(&t).Busy
}

// update prices what a rank does after its gradients are summed.
func (g *stagePrices) update(rank int32) time.Duration {
	total := g.costs(&graph.Task{
		Kind: graph.Optimizer, Rank: rank, Stage: graph.None, Microbatch: graph.None, Peer: graph.None,
	}).Busy
	if !g.sync.Sharded || g.sync.Units != nil || g.sync.Ahead != nil {
		return total
	}
	for stage := range int32(len(g.sync.Parameters)) {
		if g.graph.Placement.Holds(rank, stage) {
			total += g.gathers(rank, stage)
		}
	}
	return total
}

// gathers prices the gathers of a stage's parameters after their update.
func (g *stagePrices) gathers(rank, stage int32) (total time.Duration) {
	var last time.Duration
	pieces := g.sync.Parameters[stage]
	for part, bytes := range pieces {
		// Most pieces are as large as the one before, and take as long.
		expert := g.sync.UpdatedIsExpert(stage, part)
		if part == 0 || bytes != pieces[part-1] || expert != g.sync.UpdatedIsExpert(stage, part-1) {
			peer := g.group(rank, expert)
			if g.sync.ShardSpan > 0 && !expert {
				peer = g.graph.Sharing.Group(0, rank, int32(g.Shape.Ranks))
			}
			last = g.costs(&graph.Task{
				Kind: graph.AllGather, Rank: rank, Stage: stage, Microbatch: graph.None, Peer: peer, Bytes: bytes,
			}).Busy
		}
		total += last
	}
	return total
}

// tails are, by rank, how long the step takes at least from the end of the rank's last pass on.
type tails struct {
	whole []time.Duration // in orders of whole backwards, whose results travel back to the first stage
	any   []time.Duration // in every order
}

// add adds the ranks, given the sums that follow the last pass of each.
func (t *tails) add(ranks []rankBound, sums []time.Duration, at graph.Placement) {
	update := firstUpdate(ranks, at)
	for r := range ranks {
		tail := sums[r] + ranks[r].update
		t.any, t.whole = append(t.any, tail), append(t.whole, max(tail, ranks[r].wayBack+update))
	}
}

// of returns the tails in a kind of order.
func (t *tails) of(kind orderKind) []time.Duration {
	if kind == wholeOrder || kind == serialOrder {
		return t.whole
	}
	return t.any
}

// waits returns what sim.Horizon.Wait is for a kind of order: the all-to-alls in a pass, unless other passes may hide
// them.
func (p *sharedPrices) waits(kind orderKind, w *wiring.Pipeline) func(*graph.Task) time.Duration {
	if kind == pairedOrder || w.Exchanges == nil {
		return nil
	}
	there, back := make([]time.Duration, w.Placement.Stages()), make([]time.Duration, w.Placement.Stages())
	for s := range there {
		there[s], back[s] = forever, forever
		for i := range p.routes {
			there[s], back[s] = min(there[s], p.routes[i].passes[s].there), min(back[s], p.routes[i].passes[s].back)
		}
	}
	return func(t *graph.Task) time.Duration {
		switch {
		case t.Part > 0:
			return 0
		case t.Kind == graph.Forward:
			return there[t.Stage]
		case t.Kind == graph.Backward, (t.Kind == graph.WeightGradient) == (w.Unsplit && t.Stage == 0) && t.Kind.Pass():
			return back[t.Stage]
		}
		return 0
	}
}
