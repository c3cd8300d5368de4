package models_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
)

// Of every family, each tensor that a layer owns has one operation that makes its gradient.
func TestMakes(t *testing.T) {
	models := []models.Model{
		{Preset: "vgg16"}, {Preset: "vgg16-pipeline"}, {Family: "mlp", Layers: 2, Hidden: 8},
		{Family: "gpt", Layers: 2, Hidden: 64, Heads: 4, Vocab: 128, SequenceLength: 16},
		{Family: "llama", Layers: 2, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 16},
		{Family: "mixtral", Layers: 2, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 16, Experts: 2, ExpertsPerToken: 1},
		{
			Family: "mixtral", Layers: 3, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 16, Experts: 2, ExpertsPerToken: 1,
			ExpertHidden: 32, SharedExperts: 2, DenseLayers: 1, MoEEvery: 2, KVLoraRank: 8, QLoraRank: 12, QKNopeHeadDim: 8, QKRopeHeadDim: 4,
			VHeadDim: 16, PostNorms: true, AttentionBias: true, MLPBias: true, Sinks: true, MTPLayers: 2,
		},
		{
			Family: "llama", Layers: 2, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 16, Attention: models.AttentionFlash,
			QKNorm: true, Sinks: true, ParallelBlock: true, KVLoraRank: 0, MLPBias: true, Window: 8, FullAttentionEvery: 2,
		},
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
