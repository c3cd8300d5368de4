package stages

import (
	"psim/schedules/graph"
)

// Sliced tells which backwards of a graph are cut into parts.
type Sliced struct {
	microbatches int
	is           []bool // by stage and microbatch
}

// SlicedIn reads them off the first replica: which they are is the schedule's
// matter, as the last backward of a stage may be of any microbatch.
func SlicedIn(g *graph.Graph) Sliced {
	s := Sliced{g.Shape.Microbatches, make([]bool, g.Placement.Stages()*g.Shape.Microbatches)}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if int(t.Rank) >= g.Shape.Ranks {
			break
		}
		if t.Kind.Compute() && t.Part > 0 {
			s.is[int(t.Stage)*s.microbatches+int(t.Microbatch)] = true
		}
	}
	return s
}

// Has reports whether a task is of such a backward: a B or W.
func (s Sliced) Has(t *graph.Task) bool {
	return s.is[int(t.Stage)*s.microbatches+int(t.Microbatch)]
}
