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
	c := clockState{order: o, turnAfter: turn, clocks: make([][]int32, len(o)), next: make([]int32, len(o))}
	for r, actions := range o {
		c.runnable = append(c.runnable, int32(r))
		c.clocks[r] = make([]int32, 0, len(actions))
		for _, a := range actions {
			c.stages = max(c.stages, int(a.Stage)+1)
		}
	}
	c.microbatches = o.Microbatches()
	c.results = make([]int32, 2*c.stages*c.microbatches)
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
	order                Order
	turnAfter            func(Action) Action
	stages, microbatches int
	clocks               [][]int32 // by rank: cycles of the actions that have run so far
	runnable             []int32   // ranks that may go on
	// results has the first cycle after each result. Before that it has 0, or −1−r where rank r
	// waits for the result. Several ranks that wait are a linked list: next has the following.
	results, next []int32
}

// result returns the entry of the result of an F, B or I.
func (c *clockState) result(a Action) *int32 {
	i := int(a.Stage)*c.microbatches + int(a.Microbatch)
	if a.Kind != graph.Forward {
		i += c.stages * c.microbatches
	}
	return &c.results[i]
}

// ready returns the first cycle in which an action of a rank can run. If the rank has to wait for
// a result, ready returns false.
func (c *clockState) ready(rank int32, a Action) (clock int32, ok bool) {
	_, need := a.Needs(c.stages)
	for _, before := range [2]Action{need, c.turnAfter(a)} {
		if before.Stage == graph.None {
			continue
		}
		on := c.result(before)
		if *on <= 0 {
			*on, c.next[rank] = -1-rank, *on
			return 0, false
		}
		clock = max(clock, *on)
	}
	return clock, true
}

// advance runs a rank until it has to wait, and wakes the ranks that waited for it.
func (c *clockState) advance(rank int32) {
	actions, clocks := c.order[rank], c.clocks[rank]
	clock := int32(0)
	if n := len(clocks); n > 0 {
		clock = clocks[n-1] + 1
	}
	for _, a := range actions[len(clocks):] {
		ready, ok := c.ready(rank, a)
		if !ok {
			break
		}
		clock = max(clock, ready)
		clocks = append(clocks, clock)
		clock++
		if a.Kind != graph.WeightGradient {
			on := c.result(a)
			for waiting := *on; waiting < 0; waiting = c.next[-1-waiting] {
				c.runnable = append(c.runnable, -1-waiting)
			}
			*on = clock
		}
	}
	c.clocks[rank] = clocks
}
