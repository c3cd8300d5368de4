package train

import (
	"fmt"

	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// A taskPlan maps tasks of the graph to the job's plan of stages.
type taskPlan struct {
	// tied[i] lists what task i, an all-reduce over stages, sums: one tensor that they share,
	// or all tensors of a rank if stages have second copies.
	tied       map[int32][]string
	sliced     stages.Sliced    // the backwards that are cut into parts
	shardUnits []*shardUnit     // of all stages
	unitsOf    [][][]*shardUnit // by stage and part of a collective: what it gathers
}

// planTasks checks the job's plan against its graph, and maps one to the other.
func planTasks(j Job) (taskPlan, error) {
	p := taskPlan{tied: map[int32][]string{}}
	if err := j.Staged.Check(j.Graph); err != nil {
		return p, err
	}
	if j.Replicas > 1 && j.PerParameter.Gradient != 4 {
		return p, fmt.Errorf("gradients of %d bytes are planned, and those of programs are fp32",
			j.PerParameter.Gradient)
	}
	p.sliced = stages.SlicedIn(j.Graph)
	p.findUnits(j)
	return p, p.findTied(j)
}

// findTied matches every all-reduce over stages with tied tensors. A rank has both in the same
// order.
func (p *taskPlan) findTied(j Job) error {
	next := make([]int, j.Graph.Ranks()) // by rank: of j.Tied
	for i := range int32(j.Graph.Len()) {
		t := j.Graph.Class(i)
		if t.Kind != graph.AllReduce || t.Stage != graph.None {
			continue
		}
		k := j.tiedFrom(next[t.Rank], t.Rank)
		if k == len(j.Tied) {
			return fmt.Errorf("%s sums no tensor that stages share", j.Graph.Describe(i))
		}
		next[t.Rank], p.tied[i] = k+1, j.Tied[k].Tensors
	}
	for rank, from := range next {
		if k := j.tiedFrom(from, int32(rank)); k < len(j.Tied) {
			return fmt.Errorf("%s is used by several ranks, and the graph does not sum its gradients",
				j.Tied[k].Tensors[0])
		}
	}
	return nil
}

// tiedFrom finds the first entry of the plan's Tied, from index k on, that a rank holds.
func (j Job) tiedFrom(k int, rank int32) int {
	for ; k < len(j.Tied); k++ {
		for _, s := range j.Tied[k].Stages {
			if j.Graph.Placement.Holds(rank%int32(j.Graph.Shape.Ranks), int32(s)) {
				return k
			}
		}
	}
	return k
}
