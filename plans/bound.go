package plans

import (
	"time"

	"psim/schedules/graph"
)

// never stands for a time later than any step.
const never = time.Duration(1) << 62

// A rankBound is what bounds the step of one rank from below.
type rankBound struct {
	work  time.Duration // all its forwards and backwards
	head  time.Duration // before the first of its forwards can start
	tail  time.Duration // after its last backward, if that makes input gradients
	first time.Duration // before the first of its backwards can start
	sums  time.Duration // of gradients over replicas, that its last backward leaves behind
	last  time.Duration // the last of these alone
	all   time.Duration // all sums of the step, one after another
	ends  time.Duration // average, update and the gathering of parameters after it
}

// bound finds times that no step is shorter than, one for orders with whole backwards
// and one for those that split them: a rank gets its first microbatch when that has
// come through the stages before, has all its work to do, and then what it made has to
// go back, and its gradients to be summed. Messages and collectives queue for nothing
// here, hosts launch for nothing, and all but the last of the sums are hidden.
func (u *unit) bound() {
	ranks := make([]rankBound, u.Shape.Ranks)
	for r := range ranks {
		ranks[r] = rankBound{head: never, tail: never, first: never, sums: never, last: never}
	}
	first := u.copies()
	for i, microbatch := range first {
		next := u.Shape.Microbatches
		if i+1 < len(first) {
			next = int(first[i+1])
		}
		u.path(ranks, microbatch, int32(next)-microbatch)
	}
	for r := range ranks {
		u.update(int32(r), &ranks[r])
	}
	start := u.graph.Placement.Ranks(0)
	for split := range 2 {
		for r := range ranks {
			b := &ranks[r]
			done := b.head + b.work
			least := max(done+b.last, done+b.sums, b.first+b.all) + b.ends
			if split == 0 {
				back := ranks[start[0]].ends
				for _, s := range start {
					back = min(back, ranks[s].ends)
				}
				least = max(least, done+b.tail+back)
			}
			u.bounds[split] = max(u.bounds[split], least)
		}
	}
}

// copies lists the first microbatch of every copy of the stages.
func (u *unit) copies() []int32 {
	if half := u.graph.Placement.Half; u.graph.Placement.Second != nil && int(half) < u.Shape.Microbatches {
		return []int32{0, half}
	}
	return []int32{0}
}

// path goes with a microbatch through the stages and back, for all of its copy.
func (u *unit) path(ranks []rankBound, microbatch, count int32) {
	n, at := len(u.Workload.Stages), u.graph.Placement
	var there, back, home time.Duration // forwards; what goes back, in the end; whole backwards
	for s := range n {
		b := &ranks[at.Rank(int32(s), microbatch)]
		p := u.passes(s, microbatch)
		b.head, b.tail = min(b.head, there), min(b.tail, home)
		b.work += time.Duration(count) * (p.forward + min(p.backward, p.input+p.weight))
		there += p.forward
		home += p.backward
		there += released(u.message(graph.SendForward, s, s+1, microbatch))
		home += released(u.message(graph.SendBackward, s+1, s, microbatch))
	}
	for s := n - 1; s >= 0; s-- {
		r := at.Rank(int32(s), microbatch)
		p := u.passes(s, microbatch)
		b := &ranks[r]
		b.first = min(b.first, there+back)
		u.sums(b, r, s, count, max(p.backward, p.weight))
		back += min(p.backward, p.input)
		back += released(u.message(graph.SendBackward, s, s-1, microbatch))
	}
}

// released returns when what a message brings is there.
func released(c graph.Cost) time.Duration { return c.Busy + c.Delay }

// A passTimes is what a stage takes for a microbatch.
type passTimes struct{ forward, backward, input, weight time.Duration }

func (u *unit) passes(stage int, microbatch int32) passTimes {
	busy := func(k graph.Kind) time.Duration {
		return u.task(k, u.graph.Placement.Rank(int32(stage), microbatch), stage, microbatch).Busy
	}
	return passTimes{busy(graph.Forward), busy(graph.Backward), busy(graph.InputGradient), busy(graph.WeightGradient)}
}

// sums adds what the replicas sum of a stage, whose last backward takes so long. The
// sums of the stage whose backward is the last of the rank begin no earlier than that.
func (u *unit) sums(b *rankBound, rank int32, stage int, count int32, backward time.Duration) {
	var total, last time.Duration
	if stage < len(u.sync.Buckets) {
		for part, bytes := range u.sync.Buckets[stage] {
			last = u.collective(u.sync.Kind(), rank, stage, part, bytes)
			total += last
		}
	}
	b.sums, b.last = min(b.sums, total-backward), min(b.last, last)
	if u.sync.EveryMicrobatch {
		total *= time.Duration(count)
	}
	b.all += total
}

// collective prices a collective over the replicas.
func (u *unit) collective(k graph.Kind, rank int32, stage, part int, bytes int64) time.Duration {
	return u.costs.Task(&graph.Task{
		Kind: k, Part: uint16(part), Rank: rank, Stage: int32(stage), Microbatch: graph.None, Peer: rank, Bytes: bytes,
	}).Busy
}

// update adds what comes after the gradients of a rank.
func (u *unit) update(rank int32, b *rankBound) {
	b.ends = u.costs.Task(&graph.Task{Kind: graph.Optimizer, Rank: rank, Stage: graph.None, Microbatch: graph.None, Peer: graph.None}).Busy
	if !u.sync.Sharded || u.sync.Units != nil || u.sync.Ahead != nil {
		return
	}
	for stage, bytes := range u.sync.Parameters {
		if u.graph.Placement.Holds(rank, int32(stage)) {
			b.ends += u.collective(graph.AllGather, rank, stage, 0, bytes)
		}
	}
}
