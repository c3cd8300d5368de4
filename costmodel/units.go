package costmodel

import "psim/schedules"

// units lists what ZeRO 3 gathers and scatters for every stage. The tensors of
// a stage, in the order in which its layers list them, are one vector, filled up
// with zeros to a multiple of the replicas. The first replica keeps the first of
// the equal parts, and so on; what it scatters is added to what it keeps.
//
// A stage that uses a tensor which another stage of its rank owns, such as a
// GPT's head and the embedding's table, works on the owner's unit: it gathers
// that one whole, beside its own if it has any, and its backward scatters
// gradients for all of it, which are added to the owner's share.
func (w Workload) units() []schedules.Unit {
	state := w.state()
	units := make([]schedules.Unit, len(w.Layers))
	for s := range units {
		used := w.padded(s)
		for owner := range w.borrowed(s) {
			used += w.padded(owner)
		}
		units[s] = schedules.Unit{
			Gather: used * state.Parameter, Scatter: used * state.Gradient,
			Share: w.share(w.padded(s)*state.Gradient, 3),
		}
	}
	return units
}

// borrowed is the set of other stages of its rank that own tensors of a stage.
func (w Workload) borrowed(stage int) map[int]bool {
	owners := map[int]bool{}
	for _, l := range w.Stage(stage) {
		for _, t := range l.Tied {
			if o := w.split().Owner(t.Name); o >= 0 && o != stage && w.StageRank[o] == w.StageRank[stage] {
				owners[o] = true
			}
		}
	}
	return owners
}

// padded is the number of parameters that are stored for a stage, over all
// replicas: with ZeRO 3 a multiple of their number.
func (w Workload) padded(stage int) int64 {
	n, replicas := w.Parameters(stage), int64(w.replicas())
	if w.Zero < 3 {
		return n
	}
	return (n + replicas - 1) / replicas * replicas
}

// gatheredOf reads off the first replica of a graph how many bytes every stage
// gathers before each use.
func gatheredOf(g *schedules.Graph, stages int) []int64 {
	gathered := make([]int64, stages)
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if t.Kind == schedules.AllGather && t.Microbatch != schedules.None && int(t.Rank) < g.Shape.Ranks {
			gathered[t.Stage] = t.Bytes
		}
	}
	return gathered
}
