package stages

import (
	"psim/schedules/wiring"
)

// Fill gives a pipeline what it needs of the plan.
func (p *Plan) Fill(w *wiring.Pipeline) {
	w.Placement, w.Samples, w.WholeLast, w.Layered = p.Placement, p.Samples, p.WholeLast, p.Zero >= 3
	w.Boundaries, w.Sync, w.Shards = p.Boundaries(), p.Sync(), p.Shards
	w.Exchanges = p.cuts()
	w.ExpertSpan, w.ExpertWidth = p.expertGroup()
	for _, t := range p.Tied {
		w.Tied = append(w.Tied, wiring.Tied{Stages: t.Stages, Bytes: t.Bytes})
	}
}

// Boundaries is what crosses between stages, per sample: the activations of
// the last layer before the cut and gradients of the same shape, or the part of
// them that a device of a tensor-parallel group sends.
func (p *Plan) Boundaries() []wiring.Boundary {
	boundaries := make([]wiring.Boundary, len(p.Stages)-1)
	for s := range boundaries {
		parts := int64(p.Network.Group.Parts())
		bytes := roundUp(p.Activations(s, 1), parts) / parts
		boundaries[s] = wiring.Boundary{Forward: bytes, Backward: bytes}
	}
	return boundaries
}

// Activations is the size in bytes of what a stage hands on for a microbatch, over
// all devices of a tensor-parallel group.
func (p *Plan) Activations(stage int, samples int64) int64 {
	layers := p.Stages[stage].Layers
	return layers[len(layers)-1].Output.Elements() * p.Training.ActivationElement() * samples
}

// Sync is how the replicas sum their gradients.
func (p *Plan) Sync() wiring.Sync {
	if !p.summed() {
		return wiring.Sync{}
	}
	sync := wiring.Sync{Width: p.Context, Overlap: p.Overlap, NoReduceScatter: p.NoReduceScatter}
	if p.Zero >= 3 {
		sync.Units = p.units()
		return sync
	}
	sync.Sharded, sync.EveryMicrobatch = p.Zero > 0, p.Zero >= 2
	sync.Buckets, sync.Broadcast = p.sums(), p.broadcasts()
	for s := range p.Stages {
		sync.Parameters = append(sync.Parameters, p.updated(p.Stages[s].Parameters, p.Stages[s].Narrow))
		if p.gathersAhead() {
			var bytes []int64
			for _, piece := range p.Stages[s].Ahead {
				bytes = append(bytes, piece.Bytes)
			}
			sync.Ahead = append(sync.Ahead, bytes)
		}
	}
	if p.Network.Group.Dispatches() {
		p.syncExperts(&sync)
	}
	return sync
}

// sums lists the bytes that the replicas sum, by stage and bucket.
func (p *Plan) sums() [][]int64 {
	sums := make([][]int64, len(p.Stages))
	for s := range p.Stages {
		for _, b := range p.Stages[s].Buckets {
			sums[s] = append(sums[s], b.Bytes)
		}
	}
	return sums
}

// broadcasts lists the bytes that the first replica sends to the others before a step,
// by stage and bucket of gradients; nil for none.
func (p *Plan) broadcasts() [][]int64 {
	if !p.Broadcast || p.holders() < 2 {
		return nil
	}
	pieces := p.sums()
	for _, bytes := range pieces {
		for k := range bytes {
			bytes[k] = bytes[k] / p.PerParameter.Gradient * p.PerParameter.Parameter
		}
	}
	return pieces
}

// units lists what ZeRO 3 gathers and scatters for every stage: its flats, of
// which the first replica keeps the first of the equal parts, and so on; what it
// scatters is added to what it keeps.
//
// A stage that uses a tensor which another stage of its rank owns, such as a
// GPT's head and the embedding's table, works on the owner's unit: it gathers
// that one whole, beside its own if it has any, and its backward scatters
// gradients for all of it, which are added to the owner's share.
func (p *Plan) units() []wiring.Unit {
	units := make([]wiring.Unit, len(p.Stages))
	for s := range units {
		u := &units[s]
		u.Share = p.Share(p.Stages[s].Stored*p.PerParameter.Gradient, 3)
		for _, flats := range p.Travels(s) {
			var stored, narrow int64
			for _, f := range flats {
				stored, narrow = stored+f.Stored, narrow+f.Narrow
			}
			u.Gather, u.Scatter = append(u.Gather, p.updated(stored, narrow)), append(u.Scatter, stored*p.PerParameter.Gradient)
		}
	}
	return units
}
