package stages

import (
	"psim/schedules/wiring"
)

// Fill sets the fields of a pipeline that follow from the stages.
func (staged *Staged) Fill(w *wiring.Pipeline) {
	w.Placement, w.Samples, w.Shards = staged.Placement, staged.Samples, staged.Shards
	w.WholeLast, w.Layered, w.FullySharded = staged.WholeLast, staged.Layered(), staged.Zero >= 3
	w.Offload = staged.offload()
	w.Boundaries, w.Sync = staged.Boundaries(), staged.Sync()
	w.Exchanges = staged.WiredExchanges()
	w.ExpertSpan, w.ExpertWidth = staged.expertSpan()
	w.Loop, w.Unsplit = staged.loop(), staged.Unsplit(0)
	for _, t := range staged.Tied {
		w.Tied = append(w.Tied, wiring.Tied{Stages: t.Stages, Bytes: t.Bytes})
	}
}

// loop says what the tasks of a training loop work on; nil if they are parts of others.
func (staged *Staged) loop() *wiring.Loop {
	if !staged.Loop {
		return nil
	}
	l := wiring.Loop{
		Gradients: make([]int64, staged.ranks), Logits: staged.Activations(len(staged.Stages)-1, 1),
	}
	for s := range staged.Stages {
		st := &staged.Stages[s]
		for _, r := range st.Ranks {
			l.Gradients[r] += staged.ShareOf(st, staged.PerParameter.Gradient, 2)
		}
	}
	return &l
}

// Boundaries lists the bytes that cross between stages, per sample: the activations of the last
// layer before the cut and gradients of the same shape, or the part of them that one device of
// a tensor-parallel group sends.
func (staged *Staged) Boundaries() []wiring.Boundary {
	boundaries := make([]wiring.Boundary, len(staged.Stages)-1)
	for s := range boundaries {
		parts := int64(staged.Network.Group.Parts())
		bytes := roundUp(staged.Activations(s, 1), parts) / parts
		boundaries[s] = wiring.Boundary{Forward: bytes, Backward: bytes}
	}
	return boundaries
}

// Activations returns the bytes that a stage passes on for a microbatch, over all devices of a
// tensor-parallel group.
func (staged *Staged) Activations(stage int, samples int64) int64 {
	layers := staged.Stages[stage].Layers
	return layers[len(layers)-1].Output.Elements() * staged.Training.ActivationElement() * samples
}

// Sync describes how the replicas sum gradients and share parameters.
func (staged *Staged) Sync() wiring.Sync {
	if !staged.sumsGradients() {
		return wiring.Sync{Staging: staged.Staging}
	}
	sync := wiring.Sync{
		Width: staged.Context, Overlap: staged.Overlap,
		NoReduceScatter: staged.NoReduceScatter, ShardSpan: staged.ZeroGroup, Staging: staged.Staging,
	}
	if staged.Zero >= 3 {
		if sync.Units, sync.Once = staged.units(), staged.SumOnce; staged.Network.Group.Dispatches() {
			staged.syncExperts(&sync)
		}
		return sync
	}
	sync.Sharded, sync.EveryMicrobatch = staged.Zero > 0, staged.Zero >= 2
	sync.Buckets, sync.Broadcast = staged.summedBytes(), staged.broadcastBytes()
	for s := range staged.Stages {
		st := &staged.Stages[s]
		updated := staged.updated(st)
		bytes, experts := make([]int64, len(updated)), make([]bool, len(updated))
		for k, piece := range updated {
			bytes[k], experts[k] = piece.bytes, piece.experts
		}
		sync.Parameters = append(sync.Parameters, bytes)
		if staged.Network.Group.Dispatches() {
			sync.ParameterExperts = append(sync.ParameterExperts, experts)
		}
		if staged.gathersAhead() {
			var ahead []int64
			for _, piece := range st.Ahead {
				ahead = append(ahead, piece.Bytes)
			}
			sync.Ahead = append(sync.Ahead, ahead)
		}
	}
	if staged.Network.Group.Dispatches() {
		staged.syncExperts(&sync)
	}
	return sync
}

// summedBytes lists the bytes of gradients that the replicas sum, by stage and bucket.
func (staged *Staged) summedBytes() [][]int64 {
	sums := make([][]int64, len(staged.Stages))
	for s := range staged.Stages {
		for _, b := range staged.Stages[s].Buckets {
			sums[s] = append(sums[s], b.Bytes)
		}
	}
	return sums
}

// broadcastBytes lists the bytes of parameters that the first replica sends to the others before
// a step, by stage and bucket; nil without a broadcast.
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

// units lists the parameters that ZeRO 3 gathers and the gradients that it scatters for every
// stage. Each replica keeps one of the equal parts of a flat, the first replica the first part;
// scattered gradients are added to those that it keeps.
//
// A stage may use a tensor that another stage on its rank owns, as the head of a GPT uses the
// embedding's table. It then works on the owner's unit as well: it gathers that unit whole, in
// addition to its own if it has one, and its backward scatters gradients for all of the unit,
// which are added to the owner's share.
func (staged *Staged) units() []wiring.Unit {
	units := make([]wiring.Unit, len(staged.Stages))
	for s := range units {
		u := &units[s]
		u.Share = staged.ShareOf(&staged.Stages[s], staged.PerParameter.Gradient, 3)
		for _, flats := range staged.GatheredFlats(s) {
			var stored, narrow, frozen int64
			for _, f := range flats {
				stored, narrow = stored+f.Stored, narrow+f.Narrow
				frozen += roundUp(f.Frozen, staged.sharersOf(&f))
			}
			u.Gather = append(u.Gather, staged.updatedBytes(stored, narrow)+frozen)
			if stored > 0 {
				u.Scatter = append(u.Scatter, stored*staged.PerParameter.Gradient)
			}
		}
	}
	return units
}
