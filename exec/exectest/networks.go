package exectest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
)

// build builds a model that must be right.
func build(t testing.TB, m models.Model) network.Network {
	n, err := m.Network()
	require.NoError(t, err)
	return n
}

// gpt returns a small GPT-2.
func gpt(layers int) models.Model {
	return models.Model{Family: "gpt", Layers: layers, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8}
}

// MiniGPT is a GPT-2 of two blocks, with a matrix of its own as head.
func MiniGPT(t testing.TB) network.Network {
	m, untied := gpt(2), false
	m.Tied = &untied
	return build(t, m)
}

// MiniMLP is a perceptron of four layers.
func MiniMLP(t testing.TB) network.Network {
	return build(t, models.Model{Family: "mlp", Layers: 4, Hidden: 12})
}

// Preset is a preset by its name.
func Preset(t testing.TB, name string) network.Network { return build(t, models.Model{Preset: name}) }

// TiedGPT is a GPT-2 of three blocks, with the table of its embedding as head.
func TiedGPT(t testing.TB) network.Network { return build(t, gpt(3)) }

// DroppingGPT is TiedGPT with dropout.
func DroppingGPT(t testing.TB, rate float64) network.Network {
	m := gpt(3)
	m.Dropout = rate
	return build(t, m)
}

// PairsGPT is a GPT-2 of two blocks that knows all bytes.
func PairsGPT(t testing.TB) network.Network {
	m := gpt(2)
	m.Vocab, m.SequenceLength = 259, 16
	return build(t, m)
}
