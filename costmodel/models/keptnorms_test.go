package models_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
)

// What autograd keeps of a layer of transformers 5.23 in bf16 with a flash kernel, with the root of the mean of
// squares of each row of a norm, which psim leaves out: torch.autograd.graph.saved_tensors_hooks on the meta device (PyTorch 2.15), whose
// flash kernel keeps the logarithms of a row's sum, too.
func TestEagerLlamaKeepsWhatAutogradKeeps(t *testing.T) {
	const tokens = 4096
	for _, layer := range []struct {
		name  string
		model models.Model
		kept  int64 // bytes
		roots int64 // rows of norms
	}{
		{"Llama 3 8B", models.Model{Preset: "llama3-8b"}, 822_640_640, 2 * tokens},
		{"Qwen3 8B", models.Model{
			Family: models.FamilyLlama, Layers: 1, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFNHidden: 12288,
			Vocab: 151936, QKNorm: true,
		}, 882_016_256, (2 + 32 + 8) * tokens},
		{"MiMo-V2-Flash with MLPs alone, without a window", models.Model{
			Family: models.FamilyLlama, Layers: 1, Hidden: 4096, Heads: 64, KVHeads: 4, HeadDim: 192, VHeadDim: 128,
			FFNHidden: 16384, Vocab: 152576,
		}, 984_645_632, 2 * tokens},
		{"MiMo-V2-Flash with MLPs alone, with a window", models.Model{
			Family: models.FamilyLlama, Layers: 1, Hidden: 4096, Heads: 64, KVHeads: 4, HeadDim: 192, VHeadDim: 128,
			FFNHidden: 16384, Vocab: 152576, Window: 128, Windows: "W", WindowKVHeads: 8,
		}, 995_131_392, 2 * tokens},
		{"BERT Base, whose norms keep a mean and a deviation", models.Model{
			Family: models.FamilyLlama, Layers: 1, Hidden: 768, Heads: 12, FFNHidden: 3072, Vocab: 30522, Norm: models.NormLayer,
			Gated: new(false), LinearBias: new(true), Activation: models.ActivationGELU, Bidirectional: true,
		}, 100_925_440, 2 * 2 * tokens},
	} {
		layer.model.SequenceLength, layer.model.Attention, layer.model.Kernels = tokens, "flash", "eager"
		n, err := layer.model.Network()
		require.NoError(t, err)
		sum := network.BufferBytes(n.Layers[1].Buffers, 2, 1)
		kept := sum[network.ForwardToInput] + sum[network.ForwardToWeight]
		require.Equal(t, layer.kept, kept+4*layer.roots, layer.name)
	}
}
