package hfconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"psim/costmodel/models"
)

// An olderConfig holds the keys of types that are older than Llama, or between.
type olderConfig struct {
	ParallelResidual *bool `json:"use_parallel_residual"`
	KeyNorms         bool  `json:"qk_layernorm"`
	EmbeddingWidth   int   `json:"word_embed_proj_dim"`
	NormBefore       *bool `json:"do_layer_norm_before"`
	NoFinalNorm      bool  `json:"_remove_final_layer_norm"`
	EnableBias       *bool `json:"enable_bias"`
	Affine           *bool `json:"layer_norm_elementwise_affine"`
	QKVBias          *bool `json:"qkv_bias"`
	UseQKVBias       bool  `json:"use_qkv_bias"`
	MoELast          int   `json:"moe_layer_end_index"`
	TokenTypes       int   `json:"type_vocab_size"`
	Decoder          bool  `json:"is_decoder"`
	CrossAttention   bool  `json:"add_cross_attention"`
	MoEInterval      int   `json:"moe_layer_interval"`

	HiddenDropout    float64 `json:"hidden_dropout_prob"`
	AttentionDropout float64 `json:"attention_probs_dropout_prob"`
}

// olderTypes lists types with layer norms and without a gate, and Qwen 2's mixture.
func olderTypes() map[string]llamaType {
	return map[string]llamaType{
		"gpt_neox": {
			llamaConfig: llamaConfig{
				Vocab: 50432, Positions: 2048, Hidden: 6144, Inner: 24576, Layers: 44, Heads: 64,
				AttentionBias: true, Act: new("gelu"),
			},
			attentionBias: true, needs: sizes(),
			more: blockConfig{olderConfig: olderConfig{ParallelResidual: new(true)}},
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.Norm, m.Gated, m.MLPBias = models.NormLayer, new(false), true
				m.ParallelBlock = b.ParallelResidual == nil || *b.ParallelResidual
				m.ParallelNorms = m.ParallelBlock
				return nil
			},
		},
		"phi": {
			llamaConfig: llamaConfig{
				Vocab: 51200, Positions: 2048, Hidden: 2048, Inner: 8192, Layers: 24, Heads: 32, Act: new("gelu_new"),
			},
			needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.Norm, m.Gated, m.LinearBias = models.NormLayer, new(false), new(true)
				m.ParallelBlock, m.HeadBias = true, true
				return absent("qk_layernorm", b.KeyNorms)
			},
		},
		"opt": {
			llamaConfig: llamaConfig{
				Vocab: 50272, Positions: 2048, Hidden: 768, Inner: 3072, Layers: 12, Heads: 12, Tied: true,
				Act: new("relu"),
			},
			aliases: map[string]string{"ffn_dim": "intermediate_size", "activation_function": "hidden_act"},
			block:   opt,
			needs:   []string{"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim"},
		},
		"bloom": {
			llamaConfig: llamaConfig{
				Vocab: 250880, Positions: 2048, Hidden: 64, Inner: 256, Layers: 2, Heads: 8, Tied: true,
				Act: new("gelu"),
			},
			aliases: map[string]string{
				"n_embed": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
				"seq_length": "max_position_embeddings",
			},
			block: func(m *models.Model, _ llamaConfig, _ blockConfig) error {
				m.Family, m.PositionEmbedding, m.EmbeddingNorm = models.FamilyGPT, models.PositionsALiBi, true
				m.FFNHidden = 0 // always four times hidden_size
				return nil
			},
		},
		"qwen2_moe": {
			llamaConfig: llamaConfig{
				Vocab: 151936, Positions: 32768, Hidden: 2048, Inner: 5632, Layers: 24, Heads: 16,
				KVHeads: new(16), Window: new(4096), UseWindow: new(false), Experts: new(60), PerToken: new(4),
			},
			windowed: true, more: blockConfig{SharedInner: 5632, WindowFrom: new(28)},
			needs: sizes("num_experts|num_local_experts", "num_experts_per_tok", "moe_intermediate_size"),
			block: func(m *models.Model, c llamaConfig, b blockConfig) error {
				err := cmp.Or(qwen3Mixture(m, c, b), positive("moe_intermediate_size", &b.ExpertInner),
					gatedShared(m, b), readWindows(m, b))
				m.QKNorm, m.QKVBias = false, b.QKVBias == nil || *b.QKVBias
				return err
			},
		},
	}
}

// encoderTypes lists encoders whose blocks and head are BERT's. DistilBERT lacks the dropout after attention, which is
// priced.
func encoderTypes() map[string]llamaType {
	like := func(vocab, positions, layers, tokenTypes int, names map[string]string) llamaType {
		return llamaType{
			llamaConfig: llamaConfig{
				Vocab: vocab, Positions: positions, Hidden: 768, Inner: 3072, Layers: layers, Heads: 12, Tied: true,
				Act: new("gelu"),
			},
			more: blockConfig{olderConfig: olderConfig{
				TokenTypes: tokenTypes, HiddenDropout: 0.1, AttentionDropout: 0.1,
			}},
			block: bert, aliases: names,
		}
	}
	distilled := like(30522, 512, 6, 0, map[string]string{
		"dim": "hidden_size", "hidden_dim": "intermediate_size", "n_layers": "num_hidden_layers",
		"n_heads": "num_attention_heads", "activation": "hidden_act", "dropout": "hidden_dropout_prob",
		"attention_dropout": "attention_probs_dropout_prob",
	})
	distilled.block = func(m *models.Model, c llamaConfig, b blockConfig) error {
		b.TokenTypes = 0
		return encoder(m, c, b)
	}
	roberta := like(50265, 512, 12, 2, nil)
	roberta.block = afterPadding
	xlm := roberta
	xlm.Vocab = 30522
	return map[string]llamaType{
		"bert": like(30522, 512, 12, 2, nil), "roberta": roberta, "xlm-roberta": xlm, "distilbert": distilled,
	}
}

// bert reads a BERT, which has kinds of tokens.
func bert(m *models.Model, c llamaConfig, b blockConfig) error {
	return cmp.Or(positive("type_vocab_size", &b.TokenTypes), encoder(m, c, b))
}

// afterPadding reads a RoBERTa: the first two rows of its table of positions are not those of tokens.
func afterPadding(m *models.Model, c llamaConfig, b blockConfig) error {
	const padding = 2
	switch most := c.Positions - padding; {
	case most < 1:
		return fmt.Errorf("max_position_embeddings = %d: must be above %d, the rows before the first token's",
			c.Positions, padding)
	case m.SequenceLength == c.Positions:
		m.SequenceLength = most
	case m.SequenceLength > most:
		return fmt.Errorf("sequence_length = %d: must be at most max_position_embeddings − %d = %d", m.SequenceLength,
			padding, most)
	}
	return bert(m, c, b)
}

// encoder reads BERT's blocks, whose norms lie after the sums, and are priced as if before. The embedding and the head
// have norms of their own. Its head predicts masked tokens.
func encoder(m *models.Model, c llamaConfig, b blockConfig) error {
	m.Norm, m.Gated, m.LinearBias, m.HeadBias = models.NormLayer, new(false), new(true), true
	m.PositionEmbedding, m.Positions, m.EmbeddingNorm = models.PositionsLearned, c.Positions, true
	m.Bidirectional, m.TokenTypes, m.HeadTransform = !b.Decoder, b.TokenTypes, true
	m.Dropout = b.HiddenDropout
	for _, rate := range []float64{b.HiddenDropout, b.AttentionDropout} {
		if rate < 0 || rate >= 1 {
			return fmt.Errorf("dropout of %g: must be at least 0 and less than 1", rate)
		}
	}
	if (b.HiddenDropout > 0) != (b.AttentionDropout > 0) { // what a mask takes does not depend on its rate
		return fmt.Errorf("hidden_dropout_prob = %g and attention_probs_dropout_prob = %g: psim models dropout after "+
			"projections and on attention together; set both above 0, or both to 0",
			b.HiddenDropout, b.AttentionDropout)
	}
	if at := b.PositionType; at != nil && *at != "absolute" {
		return fmt.Errorf("position_embedding_type = %q is not supported; must be \"absolute\"", *at)
	}
	return absent("add_cross_attention", b.CrossAttention)
}

// opt reads OPT's blocks, which are GPT-2's with ReLU. Its table of positions has two more rows than positions.
func opt(m *models.Model, c llamaConfig, b blockConfig) error {
	m.Family, m.Positions = models.FamilyGPT, c.Positions+2
	for key, value := range map[string]*bool{
		"do_layer_norm_before": b.NormBefore, "enable_bias": b.EnableBias, "layer_norm_elementwise_affine": b.Affine,
	} {
		if value != nil && !*value {
			return fmt.Errorf("%s = false is not supported; must be true", key)
		}
	}
	switch {
	case b.EmbeddingWidth != 0 && b.EmbeddingWidth != c.Hidden:
		return fmt.Errorf("word_embed_proj_dim = %d is not supported; must be hidden_size = %d", b.EmbeddingWidth,
			c.Hidden)
	case m.SequenceLength > c.Positions:
		return fmt.Errorf("sequence_length = %d: must be at most max_position_embeddings = %d", m.SequenceLength,
			c.Positions)
	}
	return absent("_remove_final_layer_norm", b.NoFinalNorm)
}

// renamed returns the file with the keys that other types have in place of those of its own type.
func (f configFile) renamed(aliases map[string]string) (configFile, error) {
	f.keys = maps.Clone(f.keys)
	for _, own := range slices.Sorted(maps.Keys(aliases)) {
		other := aliases[own]
		if !f.keys.given(own) || string(f.keys[own]) == `"auto"` {
			continue
		}
		if f.keys.given(other) && !bytes.Equal(f.keys[own], f.keys[other]) {
			return f, fmt.Errorf("%s = %s and %s = %s are the same setting; remove one", own,
				shortened(f.keys[own]), other, shortened(f.keys[other]))
		}
		f.keys[other] = f.keys[own]
	}
	var err error
	f.data, err = json.Marshal(f.keys)
	return f, err
}
