package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// connector adds dependencies to tasks that are all there.
type connector struct {
	*builder
	whole wholeStage
	turns turns
	deps  []int32 // of the compute task at hand
}

// connect adds the dependencies of a replica's tasks, from the first on. Messages
// and gradient sums follow the compute task before them on their rank; the
// average, the optimizer and the gathering of parameters each follow what ends the
// step before them.
func (c *connector) connect(first int) {
	at := started(graph.None)
	for i := first; i < len(c.graph.Tasks); i++ {
		t := &c.graph.Tasks[i]
		if t.Rank != at.rank {
			at = started(t.Rank)
		}
		switch {
		case t.Kind.Compute():
			c.compute(t, &at)
			at.compute(int32(i))
			if c.Pairs != Serial {
				c.ends(t, int32(i), &at)
			}
		case t.Kind == graph.AllToAll:
			c.graph.Connect(at.computed)
			at.exchanged[c.exchangesIn(t)] = int32(i)
		case t.Kind.Message():
			c.graph.Connect(c.released(t, &at))
		case t.Kind == graph.AllGather && t.Microbatch != graph.None:
			c.graph.Connect(c.beforeGather(&at))
			at.gathered = int32(i)
		case t.Kind == graph.AllGather:
			c.graph.Connect(at.closing)
		case t.Kind == graph.Broadcast:
			c.graph.Connect()
			at.broadcast = int32(i)
		case t.Kind.Collective():
			c.graph.Connect(at.computed)
			at.sum(int32(i), t.Part)
		case t.Microbatch != graph.None: // an update after every backward
			c.graph.Connect(at.computed)
		default: // Average, Optimizer
			c.graph.Connect(at.closing)
			at.closing = int32(i)
		}
	}
}

// progress tells how far connecting a rank's tasks has come. Tasks that are not
// there yet are None.
type progress struct {
	rank              int32
	actions           int      // compute tasks so far, slices not counted
	action            int      // the last of them, of its rank
	again             bool     // the other half of its pair has come before it
	broadcast         int32    // the last broadcast
	computed, closing int32    // the last compute task; the last that ends the step
	exchanged         [2]int32 // the last all-to-all of an F, and of a B or I
	gathered          int32    // the last all-gather for the next compute task
	uses              [2]int32 // the last two compute tasks that an all-gather was for
	sums              [2]int32 // the last gradient sums of the last two backwards
	// With overlapped pairs: the tasks that the last action, or pair, ended
	// with, and those of the one before.
	ended, before [2]int32
}

// started makes the progress before the first task of a rank.
func started(rank int32) progress {
	none := [2]int32{graph.None, graph.None}
	return progress{rank: rank, broadcast: graph.None, computed: graph.None, closing: graph.None, exchanged: none, gathered: graph.None, uses: none, sums: none, ended: none, before: none}
}

// compute goes on to the next compute task.
func (p *progress) compute(i int32) {
	p.computed = i
	if p.gathered != graph.None {
		p.uses, p.gathered = [2]int32{p.uses[1], i}, graph.None
	}
}

// sum goes on to the next gradient sum, a part of a backward's.
func (p *progress) sum(i int32, part uint16) {
	p.closing = i
	if part == 0 {
		p.sums[0] = p.sums[1]
	}
	p.sums[1] = i
}

// compute adds the dependencies of a compute task, kind by kind: the other half
// of a pair, results, limits on what may be whole, its turn, the clock cycle
// before.
func (c *connector) compute(t *graph.Task, at *progress) {
	sum := c.limit(t, at)
	if t.Part > 0 || c.follows(t, at) {
		c.graph.Connect(sum, at.gathered, c.awaited(t), c.exchange(t, at))
		return
	}
	a := order.Action{Kind: t.Kind, Stage: t.Stage, Microbatch: t.Microbatch}
	deps := c.deps[:0]
	c.begins(t, at)
	if c.Pairs != Serial {
		deps = c.partnerNeeds(deps, t, at)
	}
	needs := len(deps)
	deps = c.needs(deps, a)
	results := deps[needs:]
	deps = append(deps, sum, at.gathered, c.awaited(t))
	if at.actions == 1 {
		deps = append(deps, at.broadcast)
	}
	if before := c.turns.of(a); before.Stage != graph.None {
		deps = append(deps, c.result(before))
	}
	if c.Synchronous {
		deps = c.barrier(deps, t, at.action, results)
	}
	c.graph.Connect(deps...)
	c.deps = deps
}

// needs adds the tasks whose results an action uses.
func (c *connector) needs(deps []int32, a order.Action) []int32 {
	own, neighbour := a.Needs(c.Placement.Stages())
	if own.Stage != graph.None {
		deps = append(deps, *c.made.of(own))
	}
	if neighbour.Stage != graph.None {
		deps = append(deps, c.result(c.whole.last(neighbour)))
	}
	return deps
}

// result finds the task after which the result of an action is at hand on the
// rank of the stage that needs it: the message, if there is one.
func (c *connector) result(a order.Action) int32 {
	id := *c.made.of(a)
	if c.destination(a) != graph.None {
		id++
	}
	return id
}

// beforeGather names the tasks that a unit's all-gather waits for: with overlap
// the use before the last, for only two units are whole at a time; otherwise all
// before it.
func (c *connector) beforeGather(at *progress) (computed, summed int32) {
	if c.Sync.Overlap {
		return at.uses[0], graph.None
	}
	return at.computed, at.closing
}

// limit finds the gradient sum that a compute task waits for under ZeRO 2 and 3,
// where the whole gradients of one microbatch, or two units, may be live. Without
// overlap any task waits for the sums of those before; with it the next one
// that makes gradients does, or under ZeRO 3 the next but one.
func (c *connector) limit(t *graph.Task, at *progress) int32 {
	makes := c.sums(t.Kind, t.Stage)
	switch {
	case !c.Sync.EveryMicrobatch || t.Part > 0 || c.Sync.Overlap && !makes:
		return graph.None
	case c.Sync.Overlap && c.Sync.Units != nil:
		return at.sums[0]
	}
	return at.closing
}
