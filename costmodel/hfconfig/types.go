package hfconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"psim/costmodel/models"
)

// A blockConfig holds the keys that newer configuration classes have in addition to llamaConfig.
type blockConfig struct {
	Routed       *int       `json:"n_routed_experts"`
	Shared       *int       `json:"n_shared_experts"`
	ExpertInner  int        `json:"moe_intermediate_size"`
	DenseInner   int        `json:"intermediate_size_mlp"`
	Dense        int        `json:"first_k_dense_replace"`
	SparseStep   *int       `json:"decoder_sparse_step"`
	MoEStep      *int       `json:"interleave_moe_layer_step"`
	MoEFrequency *frequency `json:"moe_layer_freq"`
	MoELayers    []int      `json:"moe_layers"`
	MLPOnly      []int      `json:"mlp_only_layers"`
	Groups       *int       `json:"n_group"`
	TopGroups    *int       `json:"topk_group"`
	QLoraRank    *int       `json:"q_lora_rank"`
	KVLoraRank   int        `json:"kv_lora_rank"`
	NopeDim      int        `json:"qk_nope_head_dim"`
	RopeDim      int        `json:"qk_rope_head_dim"`
	ValueDim     int        `json:"v_head_dim"`
	LayerTypes   []string   `json:"layer_types"`
	Pattern      *period    `json:"sliding_window_pattern"`
	Chunk        *int       `json:"attention_chunk_size"`
	NoRope       []int      `json:"no_rope_layers"`
	NoRopeEvery  *int       `json:"no_rope_layer_interval"`
	WindowFrom   *int       `json:"max_window_layers"`
	QKNorm       bool       `json:"use_qk_norm"`
	RouterBias   bool       `json:"use_routing_bias"`
	OutputBias   bool       `json:"attention_out_bias"`
	Bias         bool       `json:"use_bias"`
	MLPTypes     []string   `json:"mlp_layer_types"`
	TopK         int        `json:"index_topk"`
	IndexHeads   int        `json:"index_n_heads"`
	IndexDim     int        `json:"index_head_dim"`
	IndexEvery   *int       `json:"index_topk_freq"`
	IndexFirst   *int       `json:"index_skip_topk_offset"`
	Indexers     []string   `json:"indexer_types"`
	IndexPattern *string    `json:"index_topk_pattern"`
	SharedInner  int        `json:"shared_expert_intermediate_size"`
	deltaConfig
	patternConfig
	olderConfig
	windowConfig
	chosenConfig
}

// sizes lists the keys that every file of a newer type has to give.
func sizes(more ...string) []string {
	common := []string{"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}
	return append(common, more...)
}

// llamaTypes lists the configuration classes of transformers in the Llama family, by model_type, with
// their defaults.
func llamaTypes() map[string]llamaType {
	types := plainTypes()
	for _, more := range []map[string]llamaType{windowTypes(), qwen3Types(), mixtureTypes(), variants(),
		biasTypes(), wideMixtures(), sparseTypes(), olmoTypes(), deltaTypes(), patternTypes(), mixerTypes(),
		kimiTypes(), olderTypes(), layerNormTypes(), furtherTypes(), furtherMixtures(), furtherLatent(),
		unequalTypes(), chosenTypes(), encoderTypes()} {
		maps.Copy(types, more)
	}
	return types
}

// plainTypes lists the types whose blocks are all the same.
func plainTypes() map[string]llamaType {
	return map[string]llamaType{
		"llama": {
			llamaConfig: llamaConfig{
				Vocab: 32000, Positions: 2048, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32,
			},
			attentionBias: true, mlpBias: true,
		},
		"mistral": {
			llamaConfig: llamaConfig{
				Vocab: 32000, Positions: 4096 * 32, Hidden: 4096, Inner: 14336, Layers: 32, Heads: 32,
				KVHeads: new(8), Window: new(4096),
			},
			windowed: true,
		},
		"mixtral": {
			llamaConfig: llamaConfig{
				Vocab: 32000, Positions: 4096 * 32, Hidden: 4096, Inner: 14336, Layers: 32, Heads: 32,
				KVHeads: new(8), Experts: new(8), PerToken: new(2),
			},
			windowed: true,
		},
		"qwen2": {
			llamaConfig: llamaConfig{
				Vocab: 151936, Positions: 32768, Hidden: 4096, Inner: 22016, Layers: 32, Heads: 32,
				KVHeads: new(32), Window: new(4096), UseWindow: new(false),
			},
			windowed: true, qkvBias: true,
		},
		"gemma": {
			llamaConfig: llamaConfig{
				Vocab: 256000, Positions: 8192, Hidden: 3072, Inner: 24576, Layers: 28, Heads: 16,
				KVHeads: new(16), HeadDim: new(256), Tied: true,
			},
			attentionBias: true,
		},
		"phi3": {
			llamaConfig: llamaConfig{
				Vocab: 32064, Positions: 4096, Hidden: 3072, Inner: 8192, Layers: 32, Heads: 32,
			},
			windowed: true, needs: sizes(),
		},
		"cohere": {
			llamaConfig: llamaConfig{
				Vocab: 256000, Positions: 8192, Hidden: 8192, Inner: 22528, Layers: 40, Heads: 64, Tied: true,
			},
			attentionBias: true, needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.ParallelBlock = true
				return absent("use_qk_norm", b.QKNorm)
			},
		},
	}
}

// windowTypes lists the types in which some blocks attend to a window.
func windowTypes() map[string]llamaType {
	gemma := llamaConfig{
		Vocab: 256000, Positions: 8192, Hidden: 2304, Inner: 9216, Layers: 26, Heads: 8,
		KVHeads: new(4), HeadDim: new(256), Tied: true, Window: new(4096),
	}
	gemma3 := gemma
	gemma3.Vocab, gemma3.Positions = 262208, 131072
	return map[string]llamaType{
		"gemma2": {
			llamaConfig: gemma, attentionBias: true, windowed: true,
			needs: sizes(), more: blockConfig{Pattern: new(period(2))},
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.PostNorms = true
				return readWindows(m, b)
			},
		},
		"gemma3_text": {
			llamaConfig: gemma3, attentionBias: true, windowed: true,
			needs: []string{"hidden_size", "num_hidden_layers", "intermediate_size"},
			more:  blockConfig{Pattern: new(period(6))},
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.PostNorms, m.QKNorm = true, true
				return readWindows(m, b)
			},
		},
		"gpt_oss": {
			llamaConfig: llamaConfig{
				Vocab: 201088, Positions: 131072, Hidden: 2880, Inner: 2880, Layers: 36, Heads: 64,
				KVHeads: new(8), HeadDim: new(64), Experts: new(128), PerToken: new(4), Window: new(128),
				AttentionBias: true,
			},
			attentionBias: true, windowed: true,
			needs: sizes("num_local_experts|num_experts", "num_experts_per_tok"),
			more:  blockConfig{Pattern: new(period(2))},
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.MLPBias, m.Sinks = true, true
				return readWindows(m, b)
			},
		},
	}
}

// qwen3Types lists the two types of Qwen 3.
func qwen3Types() map[string]llamaType {
	return map[string]llamaType{
		"qwen3": {
			llamaConfig: llamaConfig{
				Vocab: 151936, Positions: 32768, Hidden: 4096, Inner: 22016, Layers: 32, Heads: 32,
				KVHeads: new(32), HeadDim: new(128), Window: new(4096), UseWindow: new(false),
			},
			attentionBias: true, windowed: true, needs: sizes(), more: blockConfig{WindowFrom: new(28)},
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.QKNorm = true
				return readWindows(m, b)
			},
		},
		"qwen3_moe": {
			llamaConfig: llamaConfig{
				Vocab: 151936, Positions: 32768, Hidden: 2048, Inner: 6144, Layers: 24, Heads: 32,
				KVHeads: new(4), Window: new(4096), UseWindow: new(false), Experts: new(128), PerToken: new(8),
			},
			attentionBias: true, windowed: true, block: qwen3Mixture,
			needs: sizes("num_experts|num_local_experts", "num_experts_per_tok", "moe_intermediate_size"),
		},
	}
}

// qwen3Mixture reads which blocks of Qwen 3 have experts.
func qwen3Mixture(m *models.Model, _ llamaConfig, b blockConfig) error {
	m.QKNorm, m.ExpertHidden, m.MoEEvery = true, b.ExpertInner, value(b.SparseStep)
	m.DenseLayers = len(b.MLPOnly)
	for i, layer := range b.MLPOnly {
		if layer != i {
			return fmt.Errorf("mlp_only_layers names block %d: psim models blocks without experts only before "+
				"all others, or at regular intervals (decoder_sparse_step)", layer)
		}
	}
	return nil
}

// readWindows reads which blocks attend to a window. The others attend to all earlier tokens.
func readWindows(m *models.Model, b blockConfig) error {
	switch {
	case m.Window == 0:
		return nil
	case b.LayerTypes != nil:
		return readLayerTypes(m, b.LayerTypes, "sliding_attention", "chunked_attention")
	case b.WindowFrom != nil && *b.WindowFrom >= m.Layers:
		m.Window = 0
	case b.WindowFrom != nil && *b.WindowFrom > 0:
		return fmt.Errorf("max_window_layers = %d: psim models windows in all blocks, or full attention in every "+
			"n-th block; set 0 or %d", *b.WindowFrom, m.Layers)
	case b.Pattern != nil:
		m.FullAttentionEvery = int(*b.Pattern)
		return positive("sliding_window_pattern", &m.FullAttentionEvery)
	}
	return nil
}

// readLayerTypes reads the kind of every block: full attention, or one of the others.
func readLayerTypes(m *models.Model, types []string, others ...string) error {
	if len(types) != m.Layers {
		return fmt.Errorf("layer_types has %d entries: must have num_hidden_layers = %d", len(types), m.Layers)
	}
	for _, kind := range types {
		if kind != "full_attention" && !slices.Contains(others, kind) {
			return fmt.Errorf("layer_types has %.40q, which psim does not model here; it models full_attention, %s",
				kind, strings.Join(others, ", "))
		}
	}
	full := func(i int) bool { return types[i] == "full_attention" }
	every := 1 + slices.Index(types, "full_attention")
	for i := range types {
		if full(i) != (every > 0 && (i+1)%every == 0) {
			return fmt.Errorf("layer_types: psim models full attention only in every n-th block, and block %d "+
				"does not fit this", i)
		}
	}
	if m.FullAttentionEvery = every; every == 1 {
		m.Window, m.FullAttentionEvery, m.Chunked = 0, 0, false
		m.DeltaKeyHeads, m.DeltaValueHeads, m.DeltaKeyDim, m.DeltaValueDim, m.DeltaConvolution = 0, 0, 0, 0, 0
	}
	return nil
}

// unmodelled names the parts of a model_type that psim does not model, or returns "".
func unmodelled(modelType string) string {
	for _, row := range [][2]string{
		{`Mamba-1 layers (it models Mamba-2; the nearest type is "mamba2")`, "mamba falcon_mamba"},
		{`Mamba-1 layers (it models Mamba-2; the nearest type is "granitemoehybrid")`, "jamba"},
		{`Mamba-1 layers (it models Mamba-2; the nearest type is "bamba")`, "zamba"},
		{`attention that several blocks with Mamba-2 share (the nearest type is "bamba")`, "zamba2"},
		{`norms inside Mamba layers (the nearest type is "bamba")`, "plamo2"},
		{"linear attention layers", "minimax minimax_m1 rwkv retnet olmo_hybrid"},
		{"residuals by attention to earlier blocks (attn_res_block_size)", "kimi_k3"},
		{`narrower embeddings, and a head that finds replaced tokens (the nearest type is "bert")`, "electra"},
		{`scores of relative positions (the nearest type is "bert")`, "deberta deberta-v2"},
		{`blocks that share their parameters (the nearest type is "bert")`, "albert"},
		{`windows that hold later tokens (the nearest type is "bert")`, "modernbert"},
		{"an encoder and a decoder that attends to it", "t5 mt5 umt5 bart mbart pegasus marian whisper"},
		{"recurrent or convolutional layers", "recurrent_gemma lfm2 lfm2_moe xlstm"},
		{"attention to compressed keys", "deepseek_v4 deepseek_ref"},
		{"sparse attention to blocks of keys (arXiv 2606.13392)", "minimax_m3 minimax_m3_vl"},
	} {
		if slices.Contains(strings.Fields(row[1]), modelType) {
			return row[0]
		}
	}
	return ""
}
