package memory

import (
	"psim/schedules/graph"
)

// An action is what a stage does for a microbatch.
type action struct{ stage, microbatch int32 }

// versions tell where stashed weights come and go (Narayanan et al. 2019,
// "PipeDream", section 3.3). Microbatches that took the same version share it, so
// that a stage of P − s microbatches in flight holds P − s versions, the newest
// among them, where M is at least 2(P − s − 1); the first ones share theirs.
type versions struct {
	kept  map[action]bool // updates after which the weights before are still needed
	freed map[action]bool // backwards that are the last to need old weights
}

// versionsOf follows the versions through the first replica of a graph; without
// stashing there are none.
func versionsOf(g *graph.Graph) versions {
	v := versions{map[action]bool{}, map[action]bool{}}
	if !g.Stashing {
		return v
	}
	newest := make([]int, g.Placement.Stages())
	took := map[action]int{}  // the version of every forward
	users := map[[2]int]int{} // by stage and version: microbatches in flight
	for i := range g.Tasks {
		t := &g.Tasks[i]
		s, a := int(t.Stage), action{t.Stage, t.Microbatch}
		switch {
		case t.Microbatch == graph.None:
		case t.Kind == graph.Forward:
			took[a] = newest[s]
			users[[2]int{s, newest[s]}]++
		case t.Kind == graph.Backward:
			with := [2]int{s, took[a]}
			users[with]--
			v.freed[a] = users[with] == 0 && took[a] < newest[s]
		case t.Kind == graph.Optimizer:
			v.kept[a] = users[[2]int{s, newest[s]}] > 0
			newest[s]++
		}
	}
	return v
}
