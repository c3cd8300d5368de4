// Package order holds compute orders: which actions every rank of a pipeline
// runs, one after another. It reads and writes an [Order] in PyTorch's notation,
// validates it, adds messages ([Order.WithMessages]), and finds out whether an order
// with messages would hang ([Order.Hang]). One rule says which results an action needs:
// [Action.Needs]. The package does not know how long actions take.
package order

import (
	"fmt"
	"slices"
	"strings"

	"psim/schedules/graph"
)

// An Action is one entry of a rank's compute order.
type Action struct {
	Kind graph.Kind // F, B, I or W
	// Pair says that this F forms an overlapped pair with the B after it on the rank.
	// A wiring.Pairing decides how such a pair runs.
	Pair              bool
	Stage, Microbatch int32 // Microbatch is None for an UNSHARD, RESHARD or REDUCE_GRAD
}

// F returns the forward of a stage and microbatch.
func F(stage, microbatch int) Action {
	return Action{Kind: graph.Forward, Stage: int32(stage), Microbatch: int32(microbatch)}
}

// B returns the full backward of a stage and microbatch.
func B(stage, microbatch int) Action {
	return Action{Kind: graph.Backward, Stage: int32(stage), Microbatch: int32(microbatch)}
}

// String prints the action as PyTorch does: 2F0 is stage 2, forward,
// microbatch 0.
func (a Action) String() string {
	if isSharding(a.Kind) {
		return fmt.Sprintf("%d%s", a.Stage, a.Kind)
	}
	return fmt.Sprintf("%d%s%d", a.Stage, a.Kind, a.Microbatch)
}

// An Order lists the actions of every pipeline rank of one replica.
type Order [][]Action

// String prints one rank per line: "0F0 0F1 0B0 0B1".
func (o Order) String() string {
	var b strings.Builder
	for _, rank := range o {
		b.WriteString(strings.Join(Cells(rank), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// Microbatches returns the number of microbatches: one more than the highest in the order.
func (o Order) Microbatches() int {
	highest := int32(-1)
	for _, rank := range o {
		for _, a := range rank {
			highest = max(highest, a.Microbatch)
		}
	}
	return int(highest) + 1
}

// contains reports whether any rank has an action that matches.
func (o Order) contains(matches func(Action) bool) bool {
	return slices.ContainsFunc(o, func(rank []Action) bool { return slices.ContainsFunc(rank, matches) })
}

// Split reports whether the order has I and W instead of B.
func (o Order) Split() bool {
	return o.contains(func(a Action) bool { return a.Kind == graph.InputGradient || a.Kind == graph.WeightGradient })
}

// Paired reports whether the order has overlapped pairs.
func (o Order) Paired() bool { return o.contains(func(a Action) bool { return a.Pair }) }

// Validate returns an *Error for the first place where the order is not a training step
// with this placement and number of microbatches: an action that is out of range,
// repeated, missing, on a rank that does not hold the stage, or before an action of the
// same rank that it needs.
func (o Order) Validate(p graph.Placement, microbatches int) error {
	v := validation{placement: p, microbatches: microbatches, done: make([]uint8, p.Stages()*microbatches)}
	for r, actions := range o {
		for i, a := range actions {
			problem := v.check(a, int32(r))
			if problem == "" && a.Pair && !isPair(actions[i:]) {
				problem = fmt.Sprintf("%s does not begin a pair: an overlapped pair is an F and the B after it", a)
			}
			if problem != "" {
				return &Error{Rank: r, Index: i, Problem: problem, Order: o}
			}
			*v.progress(a) |= 1 << a.Kind
		}
	}
	const (
		full  = 1<<graph.Forward | 1<<graph.Backward
		split = 1<<graph.Forward | 1<<graph.InputGradient | 1<<graph.WeightGradient
	)
	for at, d := range v.done {
		if s, m := at/microbatches, at%microbatches; d != full && d != split {
			return &Error{Rank: int(p.Rank(int32(s), int32(m))), Index: -1, Order: o, Problem: missing(s, m, d)}
		}
	}
	return nil
}

// isPair reports whether actions begin with an F and a B.
func isPair(actions []Action) bool {
	return len(actions) > 1 && actions[0].Kind == graph.Forward && actions[1].Kind == graph.Backward
}

// validation holds the state of one Validate call.
type validation struct {
	placement    graph.Placement
	microbatches int
	done         []uint8 // by stage and microbatch: a bit per kind
}

// progress returns the bits of an action's stage and microbatch.
func (v *validation) progress(a Action) *uint8 {
	return &v.done[int(a.Stage)*v.microbatches+int(a.Microbatch)]
}

// check returns the problem of an action, given the actions before it, or "".
func (v *validation) check(a Action, rank int32) string {
	stages := v.placement.Stages()
	switch {
	case !a.Kind.Pass():
		return fmt.Sprintf("%s is not a compute action; only F, B, I and W are", a.Kind)
	case a.Stage < 0 || int(a.Stage) >= stages:
		return fmt.Sprintf("stage %d is outside 0 to %d", a.Stage, stages-1)
	case a.Microbatch < 0 || int(a.Microbatch) >= v.microbatches:
		return fmt.Sprintf("microbatch %d is outside 0 to %d", a.Microbatch, v.microbatches-1)
	case v.placement.Rank(a.Stage, a.Microbatch) != rank:
		return fmt.Sprintf("stage %d belongs to rank %d", a.Stage, v.placement.Rank(a.Stage, a.Microbatch))
	}
	d := *v.progress(a)
	switch {
	case d&(1<<a.Kind) != 0:
		return fmt.Sprintf("%s appears twice", a)
	case a.Kind != graph.Forward && d&(1<<graph.Forward) == 0:
		return fmt.Sprintf("%s comes before its forward %s", a, a.on(a.Stage, graph.Forward))
	case a.Kind == graph.Backward && d&(1<<graph.InputGradient|1<<graph.WeightGradient) != 0,
		(a.Kind == graph.InputGradient || a.Kind == graph.WeightGradient) && d&(1<<graph.Backward) != 0:
		return fmt.Sprintf("%s repeats part of another backward: a stage and microbatch has either one B, "+
			"or one I and one W", a)
	case a.Kind == graph.WeightGradient && d&(1<<graph.InputGradient) == 0:
		return fmt.Sprintf("%s comes before its input gradient %s", a, a.on(a.Stage, graph.InputGradient))
	}
	return ""
}

// missing says which action a stage and microbatch lacks; d has a bit for every kind that
// is there.
func missing(stage, microbatch int, d uint8) string {
	switch {
	case d&(1<<graph.Forward) == 0:
		return fmt.Sprintf("%dF%d is missing", stage, microbatch)
	case d&(1<<graph.InputGradient) != 0:
		return fmt.Sprintf("%dW%d is missing", stage, microbatch)
	}
	return fmt.Sprintf("the backward %[1]dB%[2]d is missing (or %[1]dI%[2]d and %[1]dW%[2]d)", stage, microbatch)
}

// Actions counts the actions of all ranks.
func (o Order) Actions() int {
	n := 0
	for _, rank := range o {
		n += len(rank)
	}
	return n
}
