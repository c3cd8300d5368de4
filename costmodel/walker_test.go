package costmodel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
)

// Walking through a layer once for all that share its operations comes to what walking
// through each comes to, from wherever the walker is and in whatever order of passes.
func TestWalkedOnce(t *testing.T) {
	m := models.Model{Family: "llama", Layers: 4, Hidden: 256, Heads: 4, FFNHidden: 512, Vocab: 512, SequenceLength: 128, Kernels: "eager", Attention: models.AttentionFlash}
	n, err := m.On(group.Group{Devices: 2, Overlap: true})
	require.NoError(t, err)
	device := Device{Launch: 3000, Peak: Peak{BF16: 1e14}, Efficiency: Efficiency{BF16: 1, Memory: 1}, MemoryBandwidth: 1e12}
	rapid.Check(t, func(t *rapid.T) {
		training := training.Options{Precision: "bf16", Recompute: "full"}
		machine := Machine{Device: device, Tensor: 2}
		machine.Link.Bandwidth = 1e10
		compute, err := machine.Compute(training)
		require.NoError(t, err)
		host := HostTimes{Operation: units.Duration(rapid.IntRange(1, 60_000).Draw(t, "operation"))}
		at := time.Duration(rapid.IntRange(0, 1e6).Draw(t, "launched"))
		ends := time.Duration(rapid.IntRange(0, 1e6).Draw(t, "ends"))
		once := walker{compute: &compute, host: host, samples: 2, launched: at, ends: ends, known: &walks{}}
		each := once
		for range 12 {
			l := n.Layers[rapid.IntRange(0, len(n.Layers)-1).Draw(t, "layer")]
			passes := rapid.SampledFrom([][]network.Pass{{network.Forward}, {network.InputGradient}, {network.WeightGradient}, {network.InputGradient, network.WeightGradient}}).Draw(t, "passes")
			once.layer(l, passes...)
			each.passes(l, passes...)
			if rapid.Bool().Draw(t, "again") {
				once.repeated(l, training)
				each.operations(training.Repeated(l), network.Forward)
			}
			require.Equal(t, each.launch(), once.launch())
			require.Equal(t, [2]time.Duration{each.launched, each.busy}, [2]time.Duration{once.launched, once.busy})
		}
	})
}
