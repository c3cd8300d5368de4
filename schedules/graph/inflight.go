package graph

// activations tells by class whether its tasks begin to hold an activation, 1, or end to, −1.
func (g *Graph) activations() []int8 {
	change, ends := make([]int8, len(g.Classes)), g.backwards()
	for i := range g.Classes {
		switch t := &g.Classes[i]; {
		case !t.Kind.Compute() || g.Layered && t.Stage > 0:
		case t.Kind == Forward && t.Part == 0:
			change[i] = 1
		case (t.Kind == Backward || t.Kind == WeightGradient) && t.Part == ends.of(t):
			change[i] = -1
		}
	}
	return change
}

// backwards tells the last part of every B or W of the first replica, by stage and microbatch.
// Without experts, whose exchanges alone let other tasks come between, it is
// empty: the first part then does as well.
type backwards struct {
	microbatches int
	last         []uint16
}

func (g *Graph) backwards() backwards {
	b := backwards{microbatches: g.Shape.Microbatches}
	if g.Experts.Span == 0 {
		return b
	}
	b.last = make([]uint16, g.Placement.Stages()*b.microbatches)
	for i := range g.Classes {
		t := &g.Classes[i]
		if int(t.Rank) < g.Shape.Ranks && (t.Kind == Backward || t.Kind == WeightGradient) {
			last := &b.last[int(t.Stage)*b.microbatches+int(t.Microbatch)]
			*last = max(*last, t.Part)
		}
	}
	return b
}

// of finds the last part of the action that a task is part of.
func (b backwards) of(t *Task) uint16 {
	if b.last == nil {
		return 0
	}
	return b.last[int(t.Stage)*b.microbatches+int(t.Microbatch)]
}
