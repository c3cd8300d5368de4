package order

import (
	"fmt"

	"psim/schedules/graph"
)

// Clocks is the clock cycle of every action of every rank: the step in which
// it would run if every action took one and messages none. Every cycle from 0
// to the last has an action. GPipe's forwards fall into ClockCycles. It fails
// with an *Error where ranks wait for each other in a circle.
func (o Order) Clocks() ([][]int32, error) {
	return o.ClocksAfter(func(Action) (Action, bool) { return Action{}, false })
}

// clocksAfter is Clocks where an action also waits for its turn after a backward
// that its rank may not hold.
func (o Order) ClocksAfter(turn func(Action) (before Action, waits bool)) ([][]int32, error) {
	c := clocking{order: o, turn: turn, clocks: make([][]int32, len(o)), ended: map[Action]int32{}}
	for r, actions := range o {
		c.clocks[r] = make([]int32, 0, len(actions))
		for _, a := range actions {
			c.stages = max(c.stages, a.Stage+1)
		}
	}
	for moved := true; moved; {
		moved = false
		for r := range o {
			moved = c.advance(r) || moved
		}
	}
	for r, actions := range o {
		if i := len(c.clocks[r]); i < len(actions) {
			need, _ := c.need(actions[i])
			problem := fmt.Sprintf("%s waits for ever: it needs %s, which is behind what waits for this rank", actions[i], need)
			return nil, &Error{Rank: r, Index: i, Order: o, Problem: problem}
		}
	}
	return c.clocks, nil
}

// clocking is the state of one Clocks call.
type clocking struct {
	order  Order
	turn   func(Action) (Action, bool)
	stages int32
	clocks [][]int32        // of the actions of every rank that could run so far
	ended  map[Action]int32 // the cycle after an F or B (or I, as B)
}

// need is the action of another stage whose result an action needs, if there
// is one.
func (c *clocking) need(a Action) (need Action, needed bool) {
	switch {
	case a.Kind == graph.Forward && a.Stage > 0:
		return Action{Kind: graph.Forward, Stage: a.Stage - 1, Microbatch: a.Microbatch}, true
	case (a.Kind == graph.Backward || a.Kind == graph.InputGradient) && a.Stage < c.stages-1:
		return Action{Kind: graph.Backward, Stage: a.Stage + 1, Microbatch: a.Microbatch}, true
	}
	return Action{}, false
}

// ready is the cycle from which an action can run; false if what it waits for has
// not been run.
func (c *clocking) ready(a Action) (clock int32, ok bool) {
	for _, waiting := range []func(Action) (Action, bool){c.need, c.turn} {
		if before, waits := waiting(a); waits {
			ended, ok := c.ended[before]
			if !ok {
				return 0, false
			}
			clock = max(clock, ended)
		}
	}
	return clock, true
}

// advance runs what a rank can run, and reports whether that was anything.
func (c *clocking) advance(rank int) bool {
	actions, done := c.order[rank], len(c.clocks[rank])
	clock := int32(0)
	if done > 0 {
		clock = c.clocks[rank][done-1] + 1
	}
	for _, a := range actions[done:] {
		ready, ok := c.ready(a)
		if !ok {
			break
		}
		clock = max(clock, ready)
		c.clocks[rank] = append(c.clocks[rank], clock)
		clock++
		switch a.Kind {
		case graph.Forward:
			c.ended[Action{Kind: graph.Forward, Stage: a.Stage, Microbatch: a.Microbatch}] = clock
		case graph.Backward, graph.InputGradient:
			c.ended[Action{Kind: graph.Backward, Stage: a.Stage, Microbatch: a.Microbatch}] = clock
		}
	}
	return len(c.clocks[rank]) > done
}
