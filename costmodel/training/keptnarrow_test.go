package training_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// What blocks keep in 8 bits takes half of the bytes of 16: the inputs of the activation function and of the gate, and
// queries, keys, values and the context of fused attention, which stays wide as well where a gradient needs it.
func TestKept8Bit(t *testing.T) {
	const s, h, kv, f, layers = 512, 256, 64, 768, 3
	m := models.Model{
		Family: "llama", Layers: layers, Hidden: h, Heads: 8, KVHeads: 2, FFNHidden: f, Vocab: 1024, SequenceLength: s,
		Attention: "flash", Kernels: "te",
	}
	n, err := m.Network()
	require.NoError(t, err)
	kept := func(o training.Options) (bytes int64) {
		require.NoError(t, o.Validate())
		trained := o.Trained(o.Adapted(n))
		for _, l := range trained.Layers {
			sums := network.BufferBytes(o.Kept(l), o.ActivationElement(), 1)
			bytes += sums[network.ForwardToInput] + sums[network.ForwardToWeight]
		}
		return bytes
	}
	frozen := training.Adapter{Kind: "lora", Rank: 8, Targets: "q", Dropout: 0.1}
	for name, c := range map[string]struct {
		training.Options
		part string
		less int64 // of a block
	}{
		"activation":          {training.Options{Precision: "bf16"}, "activation", 2 * s * f},
		"attention":           {training.Options{Precision: "bf16"}, "attention", s*(h+2*kv) - s*h}, // the context has a copy
		"attention in fp8":    {training.Options{Precision: "fp8"}, "attention", s * (2*h + 2*kv)},
		"attention, frozen":   {training.Options{Precision: "fp8", Adapter: frozen}, "attention", s * (2*h + 2*kv)},
		"activation, frozen":  {training.Options{Precision: "fp8", Adapter: frozen}, "activation", 2 * s * f},
		"both, in fp8":        {training.Options{Precision: "fp8"}, "activation,attention", s * (2*h + 2*kv + 2*f)},
		"activation, its MLP": {training.Options{Precision: "bf16", Recompute: "mlp"}, "activation", 0}, // made again
	} {
		whole := kept(c.Options)
		c.Keep8Bit = c.part
		require.EqualValues(t, layers*c.less, whole-kept(c.Options), name)
	}
}
