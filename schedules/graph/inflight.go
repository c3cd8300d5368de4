package graph

// activations returns, by class, by how much a task changes the number of activations that its
// rank holds: 1, −1 or 0.
func (g *Graph) activations() []int8 {
	change, ends := make([]int8, len(g.Classes)), g.backwards()
	for i := range g.Classes {
		switch t := &g.Classes[i]; {
		case !t.Kind.Compute() || g.Layered && t.Stage > 0 && g.Placement.Together(int(t.Stage)-1, int(t.Stage)):
		case t.Kind == Forward && t.Part == 0:
			change[i] = 1
		case (t.Kind == Backward || t.Kind == WeightGradient) && t.Part == ends.lastPart(t):
			change[i] = -1
		}
	}
	return change
}

// backwards has the number of the last part of every B or W, by stage and microbatch of the first
// replica. It is empty without experts. Then no other task runs between the parts of a
// backward, so that the first part will do.
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

// lastPart returns the number of the last part of the action that a task is part of.
func (b backwards) lastPart(t *Task) uint16 {
	if b.last == nil {
		return 0
	}
	return b.last[int(t.Stage)*b.microbatches+int(t.Microbatch)]
}
