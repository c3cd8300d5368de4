package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// ahead names the microbatch of a stage's first forward, and the first of the gathers of
// parameters beside it.
type ahead struct{ microbatch, gather int32 }

// firstForwards finds the first forward of every stage; nil where nothing is gathered
// ahead.
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

// gatherAhead adds the gathers of parameters that the step before has updated, in the
// order in which forwards use them.
func (b *rankBuilder) gatherAhead() {
	if b.first == nil {
		return
	}
	for _, s := range slices.Backward(b.stagesOn[b.rank]) {
		b.first[s].gather = int32(b.graph.Len())
		for part, bytes := range b.Sync.Ahead[s] {
			b.addSingle(graph.Task{
				Kind: graph.AllGather, Part: uint16(part), Stream: b.open(&b.gradients, "gradients"), Stage: s, Microbatch: graph.None,
				Peer: b.group(b.Sync.aheadIsExpert(s, part)), Bytes: bytes,
			})
		}
	}
}

// piecesAhead counts the gathers beside an action: of a first forward those of its stage.
func (b *Builder) piecesAhead(a order.Action) int {
	if b.first == nil || a.Kind != graph.Forward || b.first[a.Stage].microbatch != a.Microbatch {
		return 0
	}
	return len(b.Sync.Ahead[a.Stage])
}

// awaits finds the gather that a part of a stage's first forward waits for, given the
// stage's first, or none.
func (p *Pipeline) awaits(stage, first int32, part int) int32 {
	if !p.divided(stage) {
		return first + int32(part)
	}
	if n := p.Exchanges[stage].Awaits[part]; n > 0 {
		return first + int32(n) - 1
	}
	return graph.None
}
