package order

import (
	"fmt"

	"psim/schedules/graph"
)

// Clocks is the clock cycle of every action of every rank: the step in which
// it would run if every action took one and messages none. Every cycle from 0
// to the last has an action; GPipe's forward of microbatch m on stage s is in
// cycle m + s. It fails with an *Error where ranks wait for each other in a circle.
func (o Order) Clocks() ([][]int32, error) {
	return o.ClocksAfter(func(Action) Action { return nothing })
}

// ClocksAfter is Clocks where an action also waits for its turn after a backward
// that its rank may not hold.
func (o Order) ClocksAfter(turn func(Action) (before Action)) ([][]int32, error) {
	c := clocking{order: o, turn: turn, clocks: make([][]int32, len(o)), ended: map[Action]int32{}, waits: map[Action][]int{}}
	for r, actions := range o {
		c.due = append(c.due, r)
		c.clocks[r] = make([]int32, 0, len(actions))
		for _, a := range actions {
			c.stages = max(c.stages, int(a.Stage)+1)
		}
	}
	for len(c.due) > 0 {
		r := c.due[len(c.due)-1]
		c.due = c.due[:len(c.due)-1]
		c.advance(r)
	}
	for r, actions := range o {
		if i := len(c.clocks[r]); i < len(actions) {
			_, need := actions[i].Needs(c.stages)
			problem := fmt.Sprintf("%s waits for ever: it needs %s, which is behind what waits for this rank", actions[i], need)
			return nil, &Error{Rank: r, Index: i, Order: o, Problem: problem}
		}
	}
	return c.clocks, nil
}

// clocking holds the state of one Clocks call.
type clocking struct {
	order  Order
	turn   func(Action) Action
	stages int
	clocks [][]int32        // of the actions of every rank that could run so far
	ended  map[Action]int32 // the cycle after a result
	due    []int            // ranks that may go on
	waits  map[Action][]int // ranks that wait, by what they wait for
}

// ready finds the cycle from which an action can run; false if what it waits for,
// which is then named, has not been run.
func (c *clocking) ready(a Action) (clock int32, missing Action, ok bool) {
	_, need := a.Needs(c.stages)
	for _, before := range [2]Action{need, c.turn(a)} {
		if before.Stage == graph.None {
			continue
		}
		ended, ok := c.ended[before]
		if !ok {
			return 0, before, false
		}
		clock = max(clock, ended)
	}
	return clock, nothing, true
}

// advance runs what a rank can run, after which others may go on.
func (c *clocking) advance(rank int) {
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
			c.due = append(c.due, c.waits[result]...)
			delete(c.waits, result)
		}
	}
}
