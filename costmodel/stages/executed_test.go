package stages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// Fused attention executes the tiles of its mask: two products forward and five backward
// over half of the square and half a tile, where unfused attention has six over all of it.
func TestExecutedAttention(t *testing.T) {
	const s, h, layers = 1024, 256, 2
	flops := func(attention string) float64 {
		n, err := models.Model{Family: "llama", Layers: layers, Hidden: h, FFNHidden: 512, Heads: 4, Vocab: 512, SequenceLength: s, Attention: attention}.Network()
		require.NoError(t, err)
		w := stages.Workload{Network: n, Layers: []int{len(n.Layers)}, Placement: graph.InOrder(1), Samples: []int64{3}, Training: training.Options{Precision: "bf16"}}
		return w.Staged().FLOPs()
	}
	product := 2. * s * s * h * layers * 3
	covered := 7 * product * (s + 128) / (2 * s)
	require.InEpsilon(t, 6*product-covered, flops(models.AttentionUnfused)-flops(models.AttentionFlash), 1e-12)
}
