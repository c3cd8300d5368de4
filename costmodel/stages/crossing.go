package stages

import (
	"slices"

	"psim/costmodel/network"
)

// A Crossing is the tensor that passes between two neighbouring stages for one microbatch:
// activations to the stage after, or gradients to the stage before.
type Crossing struct {
	From, To         int // stages
	FromRank, ToRank int32
	Shape            network.Dims // the first dimension is samples
	Parts            int          // in which a tensor-parallel group sends it, one for each device
	Bytes            int64        // that one device sends; 0 within a rank
	Microbatches     []int32      // all of this size between these ranks
}

// Backward reports whether the tensor is gradients.
func (c Crossing) Backward() bool { return c.To < c.From }

// Crossings lists the tensors that pass between stages in a step of a replica: by boundary, first
// forward, then backward. Under ZeRO 3 nothing passes between the units of a rank.
func (staged *Staged) Crossings() []Crossing {
	var list []Crossing
	for s, boundary := range staged.Boundaries() {
		if staged.Zero >= 3 && staged.Placement.Together(s, s+1) {
			continue
		}
		list = append(list, staged.crossings(s, s+1, boundary.Forward)...)
		list = append(list, staged.crossings(s+1, s, boundary.Backward)...)
	}
	return list
}

// crossings lists the crossings from one stage to another, given their bytes per sample.
func (staged *Staged) crossings(from, to int, bytes int64) []Crossing {
	before := staged.Stages[min(from, to)].Layers
	var list []Crossing
	for m, samples := range staged.Samples {
		c := Crossing{
			From: from, To: to,
			FromRank: staged.Placement.Rank(int32(from), int32(m)),
			ToRank:   staged.Placement.Rank(int32(to), int32(m)),
			Shape:    append(network.Dims{int(samples)}, before[len(before)-1].Output...),
			Parts:    staged.Network.Group.Parts(),
			Bytes:    bytes * samples,
		}
		if c.FromRank == c.ToRank {
			c.Parts, c.Bytes = 1, 0
		}
		i := slices.IndexFunc(list, func(k Crossing) bool {
			return k.FromRank == c.FromRank && k.ToRank == c.ToRank && k.Shape[0] == c.Shape[0]
		})
		if i < 0 {
			i, list = len(list), append(list, c)
		}
		list[i].Microbatches = append(list[i].Microbatches, int32(m))
	}
	return list
}
