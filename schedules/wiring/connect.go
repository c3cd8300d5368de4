package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A connector adds what the actions of a rank wait for beyond what is known when they are added:
// the other half of a pair, results, their turn, the clock cycle before.
type connector struct {
	*Builder
	rank, begin int32 // and its first task
	at          int   // the action at hand
	// With overlapped pairs: the tasks that the last action, or pair, ended
	// with, and those of the one before.
	ended, before [2]int32
}

// connect goes through the tasks and the actions of a rank side by side.
func (b *Builder) connect(r int32) {
	none := [2]int32{graph.None, graph.None}
	c := connector{Builder: b, rank: r, begin: b.begin[r], ended: none, before: none}
	simple := b.Pairs == Serial && b.whole.stage == graph.None && b.turns == nil && !b.Synchronous
	actions, rows, i := b.Order[r], b.graph.Rows, c.begin
	for n := range actions {
		for ; !b.heads[rows[i].Class]; i++ {
			c.note(i)
		}
		if !simple || rows[i].After != graph.None {
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
}

// action has the first task of an action, the n-th that the rank begins, wait for others, and
// then for what it waits for already. What comes before it on its stream goes without saying.
func (c *connector) action(n int, i int32) {
	c.at = c.begins(c.rank, n)
	a := &c.Order[c.rank][c.at]
	deps := c.deps[:0]
	if c.Pairs != Serial {
		deps = c.partnerNeeds(deps, n, i)
	}
	needs := len(deps)
	deps = c.needs(deps, a, i)
	if results := deps[needs:]; c.turns != nil || c.Synchronous {
		deps = append(deps, c.graph.Deps(i)...)
		if before := c.turns.before(*a); before.Stage != graph.None {
			deps = append(deps, *c.result(&before))
		}
		if c.Synchronous {
			deps = c.barrier(deps, i, results)
		}
		c.graph.Wait(i, deps...)
	} else if len(deps) == 1 && c.graph.Rows[i].After == graph.None {
		c.graph.Rows[i].After = deps[0]
	} else if len(deps) > 0 {
		c.graph.Wait(i, append(deps, c.graph.Deps(i)...)...)
	}
	c.deps = deps
}

// needs adds the tasks after which the results are there that an action uses.
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

// stream returns that of a task.
func (b *Builder) stream(i int32) int32 { return b.graph.Class(i).Stream }

// received finds the task after which what an action receives is there; None of the first
// and the last on its way.
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

// result points to the task after which the result of an F, B or I is at hand where it is needed:
// the message, if there is one.
func (b *Builder) result(a *order.Action) *int32 {
	return &b.results[direction(a.Kind)][int(a.Stage)*b.Shape.Microbatches+int(a.Microbatch)]
}

// computed finds the last compute task of an F, B or I.
func (b *Builder) computed(a *order.Action) int32 {
	i := *b.result(a)
	if b.destinations[direction(a.Kind)][b.copyOf(a)] != graph.None {
		i--
	}
	return i
}
