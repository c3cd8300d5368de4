package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// ahead has the microbatch of a stage's first forward, and the first of the gathers of
// parameters that it waits for.
type ahead struct{ microbatch, gather int32 }

// firstForwards finds the first forward of every stage. It returns nil if parameters are not
// gathered ahead.
func (p *Pipeline) firstForwards() []ahead {
	if p.Sync.Ahead == nil || !p.Sync.active(p.Shape) {
		return nil
	}
	first := slices.Repeat([]ahead{{graph.None, graph.None}}, p.Placement.Stages())
	for _, actions := range p.Order {
		for _, a := range actions {
			if a.Kind == graph.Forward && first[a.Stage].microbatch == graph.None {
				first[a.Stage].microbatch = a.Microbatch
			}
		}
	}
	return first
}

// addGathersAhead adds the gathers of parameters that the step before has updated, in the
// order in which the forwards use them.
func (b *rankBuilder) addGathersAhead() {
	if b.first == nil {
		return
	}
	for _, s := range slices.Backward(b.stagesOn[b.rank]) {
		b.first[s].gather = int32(b.graph.Len())
		for part, bytes := range b.Sync.Ahead[s] {
			t := b.stageTask(graph.AllGather, s, part)
			t.Peer, t.Bytes = b.sharing(b.Sync.aheadIsExpert(s, part)), bytes
			b.addCollective(t)
		}
	}
}

// piecesAhead counts the gathers that the parts of an action wait for: those of its stage for a first
// forward, otherwise 0.
func (b *Builder) piecesAhead(a order.Action) int {
	if b.first == nil || a.Kind != graph.Forward || b.first[a.Stage].microbatch != a.Microbatch {
		return 0
	}
	return len(b.Sync.Ahead[a.Stage])
}

// awaits returns the gather that a part of a stage's first forward waits for, given the first
// gather of the stage. It is None if the part needs no new parameters.
func (p *Pipeline) awaits(stage, first int32, part int) int32 {
	n := part + 1 // of pieces that have been gathered
	if p.divided(stage) {
		n = p.Exchanges[stage].Awaits[part]
	}
	if n == 0 {
		return graph.None
	}
	return first + int32(n)*int32(p.perCollective()) - 1
}
