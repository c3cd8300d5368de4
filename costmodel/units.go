package costmodel

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// units lists what ZeRO 3 gathers and scatters for every stage. The tensors of
// a stage, in the order in which its layers list them, are one vector, filled up
// with zeros to a multiple of the replicas. The first replica keeps the first of
// the equal parts, and so on; what it scatters is added to what it keeps.
//
// A stage that uses a tensor which another stage of its rank owns, such as a
// GPT's head and the embedding's table, works on the owner's unit: it gathers
// that one whole, beside its own if it has any, and its backward scatters
// gradients for all of it, which are added to the owner's share.
func (w Workload) units() []wiring.Unit {
	state := w.state()
	units := make([]wiring.Unit, len(w.Layers))
	for s := range units {
		used := int64(0)
		for _, owner := range w.owners(s) {
			used += w.padded(owner)
		}
		units[s] = wiring.Unit{
			Gather: used * state.Parameter, Scatter: used * state.Gradient,
			Share: w.share(w.padded(s)*state.Gradient, 3),
		}
	}
	return units
}

// owners lists the stages of its rank whose tensors a stage uses: itself, and
// the owners of what is tied.
func (w Workload) owners(stage int) []int {
	owners := []int{stage}
	for _, l := range w.Stage(stage) {
		for _, t := range l.Tied {
			o := w.split().Owner(t.Name)
			if o >= 0 && w.Placement.Together(o, stage) && !slices.Contains(owners, o) {
				owners = append(owners, o)
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

// unitSizes lists the parameters of the units that every stage works on under
// ZeRO 3, without the zeros that travel with them.
func (w Workload) unitSizes() [][]int64 {
	if w.Zero < 3 {
		return nil
	}
	sizes := make([][]int64, len(w.Layers))
	for s := range sizes {
		for _, owner := range w.owners(s) {
			sizes[s] = append(sizes[s], w.Parameters(owner))
		}
	}
	return sizes
}

// gatherUnits finds in the graph what every stage gathers whole before each
// use, and sums after it, in bytes without the zeros that travel with it.
func (p *pricer) gatherUnits() {
	p.units, p.gathered = p.workload.unitSizes(), make([]int64, len(p.workload.Layers))
	state := p.workload.state()
	for s := range p.units {
		for k := range p.buckets[s] {
			p.buckets[s][k] = sum(p.units[s]) * state.Gradient
		}
	}
	for i := range p.graph.Tasks {
		t := &p.graph.Tasks[i]
		if t.Kind == graph.AllGather && t.Microbatch != graph.None {
			p.gathered[t.Stage] = sum(p.units[t.Stage]) * state.Parameter
		}
	}
}

func sum(list []int64) (total int64) {
	for _, n := range list {
		total += n
	}
	return total
}
