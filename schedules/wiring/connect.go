package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// A connector adds the dependencies of a rank's actions on tasks that may be added later: results
// of other stages, the other half of a pair, the backward whose turn comes before, the clock
// cycle before.
type connector struct {
	*Builder
	rank, begin int32 // the rank and its first task
	at          int   // index of the current action
	// With overlapped pairs: the tasks with which the current action or pair ends, and those
	// with which the one before it ended.
	ended, before [2]int32
}

// connectRank goes through the tasks and the actions of a rank in parallel.
func (b *Builder) connectRank(r int32) {
	none := [2]int32{graph.None, graph.None}
	c := connector{Builder: b, rank: r, begin: b.begin[r], ended: none, before: none}
	resultsOnly := b.Pairs == Serial && b.whole.stage == graph.None && !b.SerialBackward && !b.Synchronous
	actions, rows, i := b.Order[r], b.graph.Rows, c.begin
	for n := range actions {
		for ; !b.heads[rows[i].Class]; i++ {
			c.note(i)
		}
		if !resultsOnly || rows[i].After != graph.None {
			c.action(n, i)
		} else if on := b.received(&actions[n]); on < c.begin || on >= i {
			rows[i].After = on
		}
		c.note(i)
		i++
	}
	for ; i < b.begin[r+1]; i++ {
		c.note(i)
	}
	b.reserveLists(r)
}

// reserveLists allocates memory for the lists of the ranks after the first, which are about as long.
func (b *Builder) reserveLists(r int32) {
	if r == 0 {
		n := len(b.graph.More) * (b.Shape.Ranks - 1)
		b.graph.More = slices.Grow(b.graph.More, n+n/8)
	}
}

// action adds dependencies to task i, the first of the n-th action that the rank begins. They come
// before those that it has already.
func (c *connector) action(n int, i int32) {
	c.at = c.begins(c.rank, n)
	a := &c.Order[c.rank][c.at]
	deps := c.deps[:0]
	if c.Pairs != Serial {
		deps = c.partnerNeeds(deps, n, i)
	}
	if deps = c.needs(deps, a, i); c.SerialBackward || c.Synchronous {
		deps = append(deps, c.graph.Deps(i)...)
		if before := c.turns.waitsFor(*a); before.Stage != graph.None {
			deps = append(deps, *c.result(&before))
		}
		if c.Synchronous {
			deps = append(deps, c.barrier())
		}
		c.graph.Wait(i, deps...)
	} else if len(deps) == 1 && c.graph.Rows[i].After == graph.None {
		c.graph.Rows[i].After = deps[0]
	} else if len(deps) > 0 {
		c.graph.Wait(i, append(deps, c.graph.Deps(i)...)...)
	}
	c.deps = deps
}

// needs appends the tasks at whose end the results have arrived that an action uses. Task i is the
// first of the action, or of the other half of its pair.
func (c *connector) needs(deps []int32, a *order.Action, i int32) []int32 {
	if c.Pairs == Overlap {
		if own, _ := a.Needs(c.Placement.Stages()); own.Stage != graph.None {
			deps = append(deps, c.computed(&own))
		}
	}
	on := c.received(a)
	if _, neighbour := a.Needs(c.Placement.Stages()); c.whole.stage != graph.None && neighbour.Stage != graph.None {
		neighbour = c.whole.last(neighbour)
		on = *c.result(&neighbour)
	}
	if on != graph.None && (on >= i || c.stream(on) != c.stream(i)) {
		deps = append(deps, on)
	}
	return deps
}

// stream returns the stream of a task.
func (b *Builder) stream(i int32) int32 { return b.graph.Class(i).Stream }

// received returns the task at whose end the result has arrived that an action gets from a
// neighbouring stage. It is None for the forward of the first stage and the backward of the last.
func (b *Builder) received(a *order.Action) int32 {
	m := b.Shape.Microbatches
	switch {
	case a.Kind == graph.Forward && a.Stage > 0:
		return b.results[0][int(a.Stage-1)*m+int(a.Microbatch)]
	case (a.Kind == graph.Backward || a.Kind == graph.InputGradient) && int(a.Stage) < len(b.Placement.First)-1:
		return b.results[1][int(a.Stage+1)*m+int(a.Microbatch)]
	}
	return graph.None
}

// result returns the entry with the task at whose end the result of an F, B or I has arrived: the
// message, if there is one.
func (b *Builder) result(a *order.Action) *int32 {
	return &b.results[direction(a.Kind)][int(a.Stage)*b.Shape.Microbatches+int(a.Microbatch)]
}

// computed returns the last compute task of an F, B or I.
func (b *Builder) computed(a *order.Action) int32 {
	i := *b.result(a)
	if b.destinations[direction(a.Kind)][b.copyOf(a)] != graph.None {
		i--
	}
	return i
}
