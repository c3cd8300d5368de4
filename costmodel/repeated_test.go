package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
	"psim/costmodel/training"
)

// Blocks that are repeated together keep one input, and are all there when the backward of
// the last begins; the first blocks of a stage are repeated by themselves and the others
// kept. One after another, by hand.
func TestUnitsByHand(t *testing.T) {
	n := smallGPT(t)
	for _, training := range []training.Options{
		{Recompute: "full", RecomputeLayers: 2}, {Recompute: "full", RecomputeLayers: 3}, {Recompute: "full", RecomputeLayers: 4},
		{Recompute: "full", RecomputeLayers: 1, RecomputeMethod: training.RecomputeBlock}, {Recompute: "full", RecomputeLayers: 3, RecomputeMethod: training.RecomputeBlock},
		{Recompute: "full", RecomputeMethod: training.RecomputeBlock}, {Recompute: "full", RecomputeLayers: 1},
	} {
		w := workload(t, n, []int32{0}, 1)
		w.Training = training
		peak := ledger(t, simulate(t, w, machine(), graphOf(t, w, orderOf(t, "gpipe", w))))[0]
		require.Equal(t, peakByHand(n, training), peak, "%+v", training)
	}
}

// peakByHand follows one microbatch of one sample, whose blocks are all but the first layer
// and the last two, and whose backward frees what I and W read of a layer with it.
func peakByHand(n network.Network, trained training.Options) (peak int64) {
	blocks := len(n.Layers) - 3
	size := func(l network.Layer) int64 {
		bytes := network.BufferBytes(l.Buffers, 4, 1)
		return bytes[network.ForwardToInput] + bytes[network.ForwardToWeight]
	}
	block, input := size(n.Layers[1]), n.Layers[1].Input.Elements()*4
	first, together := blocks, 1 // blocks that are repeated, so many at a time
	switch {
	case trained.RecomputeMethod == training.RecomputeBlock && trained.RecomputeLayers > 0:
		first = trained.RecomputeLayers
	case trained.RecomputeLayers > 0:
		together = trained.RecomputeLayers
	}
	units := int64((first + together - 1) / together)
	now := size(n.Layers[0]) + units*input + int64(blocks-first)*block + size(n.Layers[blocks+1]) + size(n.Layers[blocks+2]) + loss
	peak = now
	now -= size(n.Layers[blocks+1]) + size(n.Layers[blocks+2])
	for range blocks - first {
		now -= block
	}
	for left := first; left > 0; {
		unit := (left-1)%together + 1
		now += int64(unit)*block - input
		peak = max(peak, now)
		now -= int64(unit) * block
		left -= unit
	}
	return peak
}
