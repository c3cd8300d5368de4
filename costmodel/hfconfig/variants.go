package hfconfig

import (
	"encoding/json"
	"fmt"
	"strings"

	"psim/costmodel/models"
)

// A period is the distance of blocks with attention to all tokens: a number, or a word with a letter L for
// each block with a window and at its end a G for the one without, as EXAONE 4 has it.
type period int

// UnmarshalJSON reads a number or a word.
func (p *period) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) != nil {
		return json.Unmarshal(data, (*int)(p))
	}
	if word == "" || strings.TrimLeft(word, "L") != "G" {
		return fmt.Errorf("%.20q is not a number of letters L and a G", word)
	}
	*p = period(len(word))
	return nil
}

// variants lists types whose blocks have Llama's products, and other norms, biases or windows. Factors on
// activations are multiplied into what is computed anyway.
func variants() map[string]llamaType {
	glm := llamaConfig{
		Vocab: 151552, Positions: 131072, Hidden: 4096, Inner: 13696, Layers: 40, Heads: 32,
		KVHeads: new(2), HeadDim: new(128), AttentionBias: true,
	}
	return map[string]llamaType{
		"glm": {
			llamaConfig: glm, attentionBias: true, needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, _ blockConfig) error { ofQueries(m); return nil },
		},
		"glm4": {
			llamaConfig: glm, attentionBias: true, needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, _ blockConfig) error {
				ofQueries(m)
				m.PostNorms = true
				return nil
			},
		},
		"granite": {
			llamaConfig: llamaConfig{
				Vocab: 32000, Positions: 2048, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32,
			},
			attentionBias: true, mlpBias: true, needs: sizes(),
		},
		"cohere2": {
			llamaConfig: llamaConfig{
				Vocab: 256000, Positions: 8192, Hidden: 8192, Inner: 22528, Layers: 40, Heads: 64, Tied: true,
				Window: new(4096),
			},
			attentionBias: true, windowed: true, needs: sizes(), more: blockConfig{Pattern: new(period(4))},
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.ParallelBlock = true
				return readWindows(m, b)
			},
		},
	}
}

// ofQueries makes biases of attention those of queries, keys and values alone.
func ofQueries(m *models.Model) { m.QKVBias, m.AttentionBias = m.AttentionBias, false }

// biasTypes lists types with keys of their own for biases or positions.
func biasTypes() map[string]llamaType {
	return map[string]llamaType{
		"smollm3": {
			llamaConfig: llamaConfig{
				Vocab: 128256, Positions: 32768, Hidden: 2048, Inner: 11008, Layers: 36, Heads: 16,
				KVHeads: new(4), Tied: true, UseWindow: new(false),
			},
			attentionBias: true, mlpBias: true, windowed: true, needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error { return readWindows(m, b) },
		},
		"seed_oss": {
			llamaConfig: llamaConfig{
				Vocab: 155136, Positions: 524288, Hidden: 4096, Inner: 27648, Layers: 64, Heads: 80,
				KVHeads: new(8), HeadDim: new(128), AttentionBias: true,
			},
			attentionBias: true, mlpBias: true, needs: sizes(),
			block: func(m *models.Model, c llamaConfig, b blockConfig) error {
				if b.OutputBias && !c.AttentionBias {
					return fmt.Errorf("attention_out_bias = true with attention_bias = false: psim has no bias of " +
						"the output without those of queries, keys and values")
				}
				if !b.OutputBias {
					ofQueries(m)
				}
				return nil
			},
		},
		"ernie4_5": {
			llamaConfig: llamaConfig{
				Vocab: 103424, Positions: 131072, Hidden: 1024, Inner: 3072, Layers: 18, Heads: 16,
				KVHeads: new(2), HeadDim: new(128), Tied: true,
			},
			needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.AttentionBias, m.MLPBias = b.Bias, b.Bias
				return nil
			},
		},
	}
}

// wideMixtures lists mixtures whose blocks are those of others with other sizes, factors or norms.
func wideMixtures() map[string]llamaType {
	_, latent := mixtureSizes()
	return map[string]llamaType{
		"granitemoe": {
			llamaConfig: llamaConfig{
				Vocab: 32000, Positions: 2048, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32,
				Experts: new(8), PerToken: new(2),
			},
			attentionBias: true, needs: sizes("num_local_experts|num_experts", "num_experts_per_tok"),
		},
		"kimi_k2": {
			llamaConfig: llamaConfig{
				Vocab: 163840, Positions: 131072, Hidden: 7168, Inner: 18432, Layers: 61, Heads: 64, Experts: new(384),
			},
			needs: latent, more: blockConfig{QLoraRank: new(1536), Dense: 1, Groups: new(1), TopGroups: new(1)},
			block: biasedLatentMixture,
		},
		"minimax_m2": {
			llamaConfig: llamaConfig{
				Vocab: 200064, Positions: 196608, Hidden: 3072, Inner: 1536, Layers: 62, Heads: 48,
				KVHeads: new(8), HeadDim: new(128), Experts: new(256), PerToken: new(8),
			},
			needs: sizes("num_local_experts|num_experts", "num_experts_per_tok"), more: blockConfig{RouterBias: true},
			block: func(m *models.Model, c llamaConfig, b blockConfig) error {
				m.QKNorm, m.WholeQKNorm, m.RouterBias = true, true, b.RouterBias
				return nil
			},
		},
	}
}

// olmoTypes lists the types with norms of all queries and keys, or with norms after attention and MLP instead of
// before them. These are as many of the same size, and are priced as if they lay before.
func olmoTypes() map[string]llamaType {
	olmo := llamaConfig{
		Vocab: 50304, Positions: 2048, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32,
	}
	whole := func(m *models.Model, _ llamaConfig, _ blockConfig) error {
		m.QKNorm, m.WholeQKNorm = true, true
		return nil
	}
	windows := func(wholeNorms bool) func(*models.Model, llamaConfig, blockConfig) error {
		return func(m *models.Model, _ llamaConfig, b blockConfig) error {
			m.QKNorm, m.WholeQKNorm = true, wholeNorms
			return readWindows(m, b)
		}
	}
	olmo3 := olmo
	olmo3.Window = new(4096)
	return map[string]llamaType{
		"olmo2": {llamaConfig: olmo, attentionBias: true, needs: sizes(), block: whole},
		"olmo3": {
			llamaConfig: olmo3, attentionBias: true, windowed: true, needs: sizes(), block: windows(true),
			more: blockConfig{Pattern: new(period(4))},
		},
		"olmoe": {
			llamaConfig: llamaConfig{
				Vocab: 50304, Positions: 4096, Hidden: 2048, Inner: 2048, Layers: 16, Heads: 16,
				Experts: new(64), PerToken: new(8),
			},
			attentionBias: true, needs: sizes("num_experts|num_local_experts", "num_experts_per_tok"), block: whole,
		},
		"exaone4": {
			llamaConfig: llamaConfig{
				Vocab: 102400, Positions: 2048, Hidden: 4096, Inner: 16384, Layers: 32, Heads: 32, Window: new(4096),
			},
			windowed: true, needs: sizes(), more: blockConfig{Pattern: new(period(4))},
			block: windows(false),
		},
	}
}
