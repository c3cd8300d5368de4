package picture

import (
	"slices"

	"psim/schedules/graph"
)

// maxTones limits the stages of a rank that are told apart by tones.
const maxTones = 4

// tones tells the stages of a rank apart: the first has the full colour of a
// kind of work, the last the lightest. With second copies, the second is light.
type tones struct {
	graph *graph.Graph
	held  map[int32][]int // copies of stages by rank, in order
	most  int             // held by any rank
}

// newTones finds what every rank holds.
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

// told reports whether some rank holds several stages, and none too many.
func (t *tones) told() bool { return t.most > 1 && t.most <= maxTones }

// of returns how light a task is drawn, from 0 to 1.
func (t *tones) of(task *graph.Task) float64 {
	held := t.held[task.Rank]
	if !t.told() || !task.Kind.Compute() || len(held) < 2 {
		return 0
	}
	at, _ := slices.BinarySearch(held, t.graph.Placement.Copy(task.Stage, task.Microbatch))
	return float64(at) / float64(len(held)-1)
}

// legend says what lighter colours mean.
func (t *tones) legend() string {
	if t.graph.Placement.Second != nil {
		return "lighter: second direction"
	}
	return "lighter: later stages of a rank"
}
