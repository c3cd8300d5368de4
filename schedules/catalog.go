// Package schedules is the catalog of pipeline schedules.
//
// A schedule writes order, never time: which forwards and backwards every rank of a
// pipeline runs, one after another.
//
//	rank 0: 0F0 0F1 0B0 0B1      stage 0: forward of microbatches 0 and 1, …
//	rank 1: 1F0 1B0 1F1 1B1
//
// When they run follows from the graph that is built from the order, and from what
// its tasks cost. Five packages build it, and each knows only those above it:
//
//	graph       plain data: tasks, graphs, placements, traces, their summary
//	order       orders, their notation, the rule of what an action needs
//	wiring      order → graph: messages, gradient sums, the optimizer
//	collective  collectives spelled out, message by message, as graphs of their own
//	schedules   the catalog: a file for each schedule or family of schedules
//
// To add a schedule, write a function that returns its [Schedule] and name it in
// [Catalog]. [Custom] makes a Schedule of an order from a file. Package partition cuts
// layers into stages; package search finds new orders.
package schedules

import (
	"fmt"
	"strings"
	"sync"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// A Schedule is one row of the catalog.
type Schedule struct {
	Name    string
	Summary string // one line
	// About says in two or three sentences what it does and when to use it.
	About string
	// Bubble and Memory are formulas for equal stages and free communication,
	// in P ranks, M microbatches, V stages per rank, R microbatches per round,
	// rank r, and times F, B = I+W, I and W of one stage (W no longer than the
	// others), F&B of an overlapped pair and T of the step. Bubble is the idle
	// share of the ranks' time, or "of span" the idle share of a rank's own span, or
	// "of rank 0" its idle time; Memory is the largest number of stage activations
	// on rank r. A formula ends with the conditions under which it holds, and may
	// begin with "at most" or "about". The condition Q=… defines a letter, and a
	// condition that begins with "and" is a remark. A test evaluates these strings
	// and compares.
	Bubble, Memory string
	Constraint     string // on the shape; empty if the schedule serves any
	Paper          string
	// MultiStage says that it serves placements with several stages on a rank.
	MultiStage bool
	// Pipelined says that it spreads stages over ranks; ddp does not.
	Pipelined bool
	// Virtual says that a rank may hold several stages (virtual_stages), and
	// Grouped that the size of their groups of microbatches may be set (group).
	Virtual, Grouped bool
	// PerRank is the number of stages of every rank where the schedule fixes
	// it at more than one, or with Virtual the smallest; virtual_stages may then be
	// omitted.
	PerRank int

	// Lighter names a schedule with the same stages and time that holds fewer
	// activations; may be empty.
	Lighter string

	// Single names the schedule that this one equals with one stage per rank; may be
	// empty.
	Single string

	// LeftOut says which parts of a written order have no effect; may be empty.
	LeftOut string
	// SerialBackward says that backwards run one at a time, Stashing that every
	// backward updates its stage (see wiring.Pipeline).
	SerialBackward, Stashing bool

	order func(s graph.Shape, stageRank []int32) order.Order
	// place puts stages on ranks; nil puts stage s on rank s.
	place func(graph.Shape) graph.Placement
	// legal refuses shapes that the schedule cannot serve; nil refuses none.
	legal func(graph.Shape) error
}

// Catalog lists the pipeline and data-parallel schedules.
func Catalog() []Schedule {
	return []Schedule{
		modelParallel(), gpipe(), torchgpipe(), hw4(),
		oneForwardOneBackward(), pipedream(), interleaved(), loopedBFS(),
		zbH1(), zbH2(), interleavedZeroBubble(),
		zbv(), vHalf(), vMin(), dualPipeV(), dualPipe(), chimera(), hanayo(),
		ddp(),
	}
}

// Names lists the names of the catalog, in its order.
func Names() []string {
	var names []string
	for _, s := range Catalog() {
		names = append(names, s.Name)
	}
	return names
}

// Find returns the schedule with a name.
func Find(name string) (Schedule, error) {
	if s, known := byName()[name]; known {
		return s, nil
	}
	return Schedule{}, fmt.Errorf("unknown schedule %q; use one of %s", name, strings.Join(Names(), ", "))
}

// byName returns the schedules of the catalog by their names.
var byName = sync.OnceValue(func() map[string]Schedule {
	all := map[string]Schedule{}
	for _, s := range Catalog() {
		all[s.Name] = s
	}
	return all
})
