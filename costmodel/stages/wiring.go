package stages

import (
	"psim/schedules/wiring"
)

// Fill gives a pipeline what it needs of the plan.
func (staged *Staged) Fill(w *wiring.Pipeline) {
	w.Placement, w.Samples, w.WholeLast, w.Layered = staged.Placement, staged.Samples, staged.WholeLast, staged.Zero >= 3
	w.Boundaries, w.Sync, w.Shards = staged.Boundaries(), staged.Sync(), staged.Shards
	w.Exchanges = staged.wiringExchanges()
	w.ExpertSpan, w.ExpertWidth = staged.expertSpan()
	for _, t := range staged.Tied {
		w.Tied = append(w.Tied, wiring.Tied{Stages: t.Stages, Bytes: t.Bytes})
	}
}

// Boundaries is what crosses between stages, per sample: the activations of
// the last layer before the cut and gradients of the same shape, or the part of
// them that a device of a tensor-parallel group sends.
func (staged *Staged) Boundaries() []wiring.Boundary {
	boundaries := make([]wiring.Boundary, len(staged.Stages)-1)
	for s := range boundaries {
		parts := int64(staged.Network.Group.Parts())
		bytes := roundUp(staged.Activations(s, 1), parts) / parts
		boundaries[s] = wiring.Boundary{Forward: bytes, Backward: bytes}
	}
	return boundaries
}

// Activations is the size in bytes of what a stage hands on for a microbatch, over
// all devices of a tensor-parallel group.
func (staged *Staged) Activations(stage int, samples int64) int64 {
	layers := staged.Stages[stage].Layers
	return layers[len(layers)-1].Output.Elements() * staged.Training.ActivationElement() * samples
}

// Sync is how the replicas sum their gradients.
func (staged *Staged) Sync() wiring.Sync {
	if !staged.sumsGradients() {
		return wiring.Sync{}
	}
	sync := wiring.Sync{Width: staged.Context, Overlap: staged.Overlap, NoReduceScatter: staged.NoReduceScatter}
	if staged.Zero >= 3 {
		sync.Units = staged.units()
		return sync
	}
	sync.Sharded, sync.EveryMicrobatch = staged.Zero > 0, staged.Zero >= 2
	sync.Buckets, sync.Broadcast = staged.summedBytes(), staged.broadcastBytes()
	for s := range staged.Stages {
		sync.Parameters = append(sync.Parameters, staged.updatedBytes(staged.Stages[s].Parameters, staged.Stages[s].Narrow))
		if staged.gathersAhead() {
			var bytes []int64
			for _, piece := range staged.Stages[s].Ahead {
				bytes = append(bytes, piece.Bytes)
			}
			sync.Ahead = append(sync.Ahead, bytes)
		}
	}
	if staged.Network.Group.Dispatches() {
		staged.syncExperts(&sync)
	}
	return sync
}

// summedBytes lists the bytes that the replicas sum, by stage and bucket.
func (staged *Staged) summedBytes() [][]int64 {
	sums := make([][]int64, len(staged.Stages))
	for s := range staged.Stages {
		for _, b := range staged.Stages[s].Buckets {
			sums[s] = append(sums[s], b.Bytes)
		}
	}
	return sums
}

// broadcastBytes lists the bytes that the first replica sends to the others before a step,
// by stage and bucket of gradients; nil for none.
func (staged *Staged) broadcastBytes() [][]int64 {
	if !staged.Broadcast || staged.holders() < 2 {
		return nil
	}
	pieces := staged.summedBytes()
	for _, bytes := range pieces {
		for k := range bytes {
			bytes[k] = bytes[k] / staged.PerParameter.Gradient * staged.PerParameter.Parameter
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
func (staged *Staged) units() []wiring.Unit {
	units := make([]wiring.Unit, len(staged.Stages))
	for s := range units {
		u := &units[s]
		u.Share = staged.Share(staged.Stages[s].Stored*staged.PerParameter.Gradient, 3)
		for _, flats := range staged.GatheredFlats(s) {
			var stored, narrow int64
			for _, f := range flats {
				stored, narrow = stored+f.Stored, narrow+f.Narrow
			}
			u.Gather, u.Scatter = append(u.Gather, staged.updatedBytes(stored, narrow)), append(u.Scatter, stored*staged.PerParameter.Gradient)
		}
	}
	return units
}
