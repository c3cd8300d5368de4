package reports

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
}

// newTones finds what every rank holds; nil if no rank holds several stages, or
// one holds too many.
func newTones(g *graph.Graph) *tones {
	t := &tones{g, map[int32][]int{}}
	most := 1
	for i := range g.Tasks {
		task := &g.Tasks[i]
		if !task.Kind.Compute() {
			continue
		}
		held, stage := t.held[task.Rank], g.Placement.Copy(task.Stage, task.Microbatch)
		if at, known := slices.BinarySearch(held, stage); !known {
			t.held[task.Rank] = slices.Insert(held, at, stage)
			if most = max(most, len(held)+1); most > maxTones {
				return nil
			}
		}
	}
	if most == 1 {
		return nil
	}
	return t
}

// of returns how light a task is drawn, from 0 to 1.
func (t *tones) of(task *graph.Task) float64 {
	if t == nil || !task.Kind.Compute() || len(t.held[task.Rank]) < 2 {
		return 0
	}
	held := t.held[task.Rank]
	return float64(slices.Index(held, t.graph.Placement.Copy(task.Stage, task.Microbatch))) / float64(len(held)-1)
}

// legend says what lighter colours mean.
func (t *tones) legend() string {
	if t.graph.Placement.Second != nil {
		return "lighter: second direction"
	}
	return "lighter: later stages of a rank"
}
