package order

import (
	"fmt"

	"psim/schedules/graph"
)

// Clocks returns the clock cycle of every action of every rank: the cycle in which it
// runs if every action takes one cycle and messages take no time. Every cycle from 0
// to the last has an action; GPipe's forward of microbatch m on stage s is in
// cycle m + s. If ranks wait for each other in a circle, the error is an *Error.
func (o Order) Clocks() ([][]int32, error) {
	return o.ClocksAfter(func(Action) Action { return noAction })
}

// ClocksAfter is Clocks for orders in which an action also waits for another backward,
// possibly on another rank: the one that turn returns for it.
func (o Order) ClocksAfter(turn func(Action) (before Action)) ([][]int32, error) {
	c := clockState{
		order: o, turnAfter: turn, clocks: make([][]int32, len(o)),
		ended: map[Action]int32{}, waits: map[Action][]int{},
	}
	for r, actions := range o {
		c.runnable = append(c.runnable, r)
		c.clocks[r] = make([]int32, 0, len(actions))
		for _, a := range actions {
			c.stages = max(c.stages, int(a.Stage)+1)
		}
	}
	for len(c.runnable) > 0 {
		r := c.runnable[len(c.runnable)-1]
		c.runnable = c.runnable[:len(c.runnable)-1]
		c.advance(r)
	}
	for r, actions := range o {
		if i := len(c.clocks[r]); i < len(actions) {
			_, need := actions[i].Needs(c.stages)
			problem := fmt.Sprintf("%s waits forever: it needs %s, "+
				"which comes after an action that waits for this rank", actions[i], need)
			return nil, &Error{Rank: r, Index: i, Order: o, Problem: problem}
		}
	}
	return c.clocks, nil
}

// clockState holds the state of one Clocks call.
type clockState struct {
	order     Order
	turnAfter func(Action) Action
	stages    int
	clocks    [][]int32        // by rank: cycles of the actions that have run so far
	ended     map[Action]int32 // the first cycle after a result
	runnable  []int            // ranks that may go on
	waits     map[Action][]int // waiting ranks, by the action that they wait for
}

// ready returns the first cycle in which an action can run. If an action that it waits
// for has not run yet, ready returns that one and false.
func (c *clockState) ready(a Action) (clock int32, missing Action, ok bool) {
	_, need := a.Needs(c.stages)
	for _, before := range [2]Action{need, c.turnAfter(a)} {
		if before.Stage == graph.None {
			continue
		}
		ended, ok := c.ended[before]
		if !ok {
			return 0, before, false
		}
		clock = max(clock, ended)
	}
	return clock, noAction, true
}

// advance runs a rank until it has to wait, and wakes the ranks that waited for it.
func (c *clockState) advance(rank int) {
	actions, done := c.order[rank], len(c.clocks[rank])
	clock := int32(0)
	if done > 0 {
		clock = c.clocks[rank][done-1] + 1
	}
	for _, a := range actions[done:] {
		ready, missing, ok := c.ready(a)
		if !ok {
			c.waits[missing] = append(c.waits[missing], rank)
			return
		}
		clock = max(clock, ready)
		c.clocks[rank] = append(c.clocks[rank], clock)
		clock++
		if a.Kind != graph.WeightGradient {
			result := a.result()
			c.ended[result] = clock
			c.runnable = append(c.runnable, c.waits[result]...)
			delete(c.waits, result)
		}
	}
}
