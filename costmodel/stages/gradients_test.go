package stages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// A bucket that is limited to a number of gradients is closed by the tensor that reaches it,
// the first one, too, whatever a gradient takes.
func TestBucketGradients(t *testing.T) {
	network, err := models.Model{Preset: "gpt2", SequenceLength: 128}.Network()
	require.NoError(t, err)
	const limit = 10_000_000
	var counts []int
	for _, gradients := range []string{"fp32", ""} {
		w := stages.Workload{
			Network: network, Training: training.Options{Precision: "bf16", Gradients: gradients}, Layers: []int{len(network.Layers)},
			Placement: graph.InOrder(1), Samples: []int64{1}, Replicas: 2, BucketGradients: limit, Bucket: 1,
		}
		staged := w.Staged()
		size := map[string]int64{}
		for _, tensor := range staged.Stages[0].Tensors {
			size[tensor.Name] = tensor.Shape.Elements()
		}
		buckets := staged.Stages[0].Buckets
		for i, b := range buckets {
			held := b.Bytes / staged.PerParameter.Gradient
			last := size[b.Tensors[len(b.Tensors)-1]]
			require.Less(t, held-last, int64(limit), "closed before")
			if i < len(buckets)-1 {
				require.GreaterOrEqual(t, held, int64(limit))
			}
		}
		counts = append(counts, len(buckets))
	}
	require.Equal(t, counts[0], counts[1])
	require.Greater(t, counts[0], 3)
}
