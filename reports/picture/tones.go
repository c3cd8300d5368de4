package picture

import (
	"slices"

	"psim/schedules/graph"
)

// maxTones is the largest number of stages of a rank that tones distinguish.
const maxTones = 4

// tones distinguish the stages of a rank: the first has the full colour of a kind of work,
// the last has the lightest tone. With second copies of stages, the second copy is light.
type tones struct {
	graph *graph.Graph
	held  map[int32][]int // copies of stages by rank, in order
	most  int             // the largest number that a rank holds
}

// newTones finds the stages that every rank holds.
func newTones(g *graph.Graph) *tones {
	t := &tones{graph: g, held: map[int32][]int{}}
	for i := range g.Classes {
		task := &g.Classes[i]
		if !task.Kind.Compute() {
			continue
		}
		held, stage := t.held[task.Rank], g.Placement.Copy(task.Stage, task.Microbatch)
		if at, known := slices.BinarySearch(held, stage); !known {
			t.held[task.Rank] = slices.Insert(held, at, stage)
			t.most = max(t.most, len(held)+1)
		}
	}
	return t
}

// distinct reports whether tones distinguish stages: some rank must hold several of them,
// and no rank more than there are tones.
func (t *tones) distinct() bool { return t.most > 1 && t.most <= maxTones }

// of returns how light a task is drawn, from 0 to 1.
func (t *tones) of(task *graph.Task) float64 {
	held := t.held[task.Rank]
	if !t.distinct() || !task.Kind.Compute() || len(held) < 2 {
		return 0
	}
	at, _ := slices.BinarySearch(held, t.graph.Placement.Copy(task.Stage, task.Microbatch))
	return float64(at) / float64(len(held)-1)
}

// legend returns the meaning of lighter colours.
func (t *tones) legend() string {
	if t.graph.Placement.Second != nil {
		return "lighter: second direction"
	}
	return "lighter: later stages of a rank"
}
