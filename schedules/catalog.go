package schedules

import (
	"fmt"
	"strings"

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
	// share of the ranks' time, or "of span" (see Bubble), or the idle time "of
	// rank 0"; Memory counts the stage activations that rank r holds at most. A
	// formula ends with the conditions that it is limited to, and may begin with
	// "at most" or "about"; a condition Q=… gives a letter a meaning, and one that
	// begins with "and" is a remark. A test reads it as it stands here and compares.
	Bubble, Memory string
	Constraint     string // what it demands of its shape; empty if nothing
	Paper          string
	// MultiStage says that it serves placements with several stages on a rank.
	MultiStage bool
	// Pipelined says that it spreads stages over ranks; ddp does not.
	Pipelined bool
	// Virtual says that a rank may hold several stages (virtual_stages), and
	// Grouped that the size of their groups of microbatches may be set (group).
	Virtual, Grouped bool
	// PerRank is the number of stages of every rank where the schedule fixes
	// it at more than one, or with Virtual the least; virtual_stages may then be
	// left out.
	PerRank int

	// Lighter names a schedule of the same stages and time that holds fewer
	// activations; empty if there is none.
	Lighter string

	// Single names the schedule that it is with one stage per rank; empty if none is.
	Single string

	// LeftOut says what of a written order has no effect; empty if nothing.
	LeftOut string
	// SerialBackward says that backwards run one at a time, Stashing that every
	// backward updates its stage (see Pipeline).
	SerialBackward, Stashing bool

	order func(s graph.Shape, stageRank []int32) order.Order
	// place puts stages on ranks; nil is stage s on rank s.
	place func(graph.Shape) graph.Placement
	// legal reports a shape that the schedule cannot serve; nil is none.
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

// Find returns the schedule of that name.
func Find(name string) (Schedule, error) {
	for _, s := range Catalog() {
		if s.Name == name {
			return s, nil
		}
	}
	return Schedule{}, fmt.Errorf("there is no schedule %q; the schedules are %s", name, strings.Join(Names(), ", "))
}
