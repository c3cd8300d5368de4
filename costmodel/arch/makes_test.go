package arch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/arch"
)

// Of every family, each tensor that a layer owns has one operation that makes its gradient.
func TestMakes(t *testing.T) {
	models := []arch.Model{
		{Preset: "vgg16"}, {Preset: "vgg16-pipeline"}, {Family: "mlp", Layers: 2, Hidden: 8},
		{Family: "gpt", Layers: 2, Hidden: 64, Heads: 4, Vocab: 128, SequenceLength: 16},
		{Family: "llama", Layers: 2, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 16},
		{Family: "mixtral", Layers: 2, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 16, Experts: 2, ExpertsPerToken: 1},
	}
	for _, m := range models {
		n, err := m.Network()
		require.NoError(t, err)
		for _, l := range n.Layers {
			for _, p := range l.Params {
				makers := 0
				for _, o := range l.Ops {
					if o.Makes(p) {
						makers++
					}
				}
				require.Equal(t, 1, makers, "%s: %s", n.Name, p.Name)
			}
		}
	}
}
