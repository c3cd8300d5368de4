package hfconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/models"
)

// A llamaConfig holds the keys that the configuration classes of the Llama family have in common, and
// those that Mixtral adds.
type llamaConfig struct {
	Vocab         int     `json:"vocab_size"`
	Positions     int     `json:"max_position_embeddings"`
	Hidden        int     `json:"hidden_size"`
	Inner         int     `json:"intermediate_size"`
	Layers        int     `json:"num_hidden_layers"`
	Heads         int     `json:"num_attention_heads"`
	KVHeads       *int    `json:"num_key_value_heads"`
	HeadDim       *int    `json:"head_dim"`
	Tied          bool    `json:"tie_word_embeddings"`
	AttentionBias bool    `json:"attention_bias"`
	MLPBias       bool    `json:"mlp_bias"`
	Experts       *int    `json:"num_local_experts"`
	ExpertsToo    *int    `json:"num_experts"` // the second name in MixtralConfig's attribute_map
	PerToken      *int    `json:"num_experts_per_tok"`
	Window        *int    `json:"sliding_window"`
	UseWindow     *bool   `json:"use_sliding_window"`
	Act           *string `json:"hidden_act"`
	ActToo        *string `json:"hidden_activation"` // of Gemma
}

// A llamaType is one of these classes: the defaults of its keys, and how they are read.
type llamaType struct {
	llamaConfig
	qkvBias                bool // it always has biases of queries, keys and values
	attentionBias, mlpBias bool // it may have these biases
	maybeDense             bool // its number of experts may be 0
	patterned              bool // num_hidden_layers follows from the kinds of blocks
	mixersAlone            bool // its blocks have neither attention nor an MLP
	windowed               bool // sliding_window is used, if use_sliding_window is absent or true
	// Newer types have further keys, with the defaults in more. block reads them.
	block   func(m *models.Model, c llamaConfig, b blockConfig) error
	more    blockConfig
	needs   []string          // required keys
	aliases map[string]string // keys that it has in place of those of other types
}

// parseLlama reads a part of a file as a type of the Llama family.
func (f configFile) parseLlama(t llamaType) (models.Model, error) {
	if len(t.aliases) > 0 {
		var err error
		if f, err = f.renamed(t.aliases); err != nil {
			return models.Model{}, err
		}
	}
	keys, c := f.keys, t.llamaConfig
	mixed := c.Experts != nil // only types with experts have a default for their number
	if !mixed {
		if err := keys.dense(f.modelType); err != nil {
			return models.Model{}, err
		}
	}
	b := t.more
	err := cmp.Or(keys.needs(f.modelType, t.needs), keys.fill(f.data, &c))
	if t.block != nil {
		err = cmp.Or(err, keys.fill(f.data, &b))
	}
	if err != nil {
		return models.Model{}, err
	}
	if t.maybeDense && value(c.Experts) == 0 && value(c.ExpertsToo) == 0 {
		mixed, c.PerToken = false, nil
	}
	if err := c.experts(keys, mixed, &b); err != nil {
		return models.Model{}, err
	}
	err = cmp.Or(
		positive("vocab_size", &c.Vocab), positive("max_position_embeddings", &c.Positions),
		positive("hidden_size", &c.Hidden), positive("intermediate_size", &c.Inner),
		few("num_hidden_layers", c.Layers, models.MaxLayers), positive("num_attention_heads", &c.Heads),
		positive("num_key_value_heads", c.KVHeads), positive("head_dim", c.HeadDim),
		positive("num_experts_per_tok", c.PerToken),
		absent("attention_bias", c.AttentionBias && !t.attentionBias), absent("mlp_bias", c.MLPBias && !t.mlpBias),
	)
	if err != nil {
		return models.Model{}, err
	}
	m, err := t.model(c, b, mixed, f.sequence)
	m.Eager = joined(m.Eager, eagerForms()[f.modelType])
	if err == nil && t.patterned {
		err = keys.expertKeys(m.Pattern)
	}
	return m, err
}

// model makes a Model of the values that were read.
func (t llamaType) model(c llamaConfig, b blockConfig, mixed bool, sequence int) (models.Model, error) {
	m := models.Model{
		Family: models.FamilyLlama, Layers: c.Layers, Hidden: c.Hidden, Heads: c.Heads,
		KVHeads: value(c.KVHeads), HeadDim: value(c.HeadDim), FFNHidden: c.Inner, Vocab: c.Vocab,
		QKVBias: t.qkvBias, AttentionBias: c.AttentionBias, MLPBias: c.MLPBias,
		SequenceLength: cmp.Or(sequence, c.Positions), Tied: &c.Tied,
	}
	if t.windowed && (t.UseWindow == nil || c.UseWindow != nil && *c.UseWindow) {
		m.Window = value(c.Window)
	}
	if mixed {
		m.Family, m.Experts, m.ExpertsPerToken = models.FamilyMixtral, value(c.Experts), value(c.PerToken)
	}
	for _, named := range []struct {
		key   string
		value *string
	}{{"hidden_act", c.Act}, {"hidden_activation", c.ActToo}} {
		if named.value == nil {
			continue
		}
		var err error
		if m.Activation, err = activation(named.key, *named.value); err != nil {
			return models.Model{}, err
		}
		m.Eager = eagerFunction(*named.value)
	}
	if t.block != nil {
		if err := t.block(&m, c, b); err != nil {
			return models.Model{}, err
		}
	}
	return m, nil
}

// experts finds the number of experts under any of its names.
func (c *llamaConfig) experts(keys configKeys, mixed bool, b *blockConfig) error {
	if !mixed {
		c.Experts, c.ExpertsToo = nil, nil // 0 or 1, which is not a mixture
		return nil
	}
	if c.Experts == nil && (c.ExpertsToo != nil || b.Routed != nil) {
		c.Experts = new(int)
	}
	return cmp.Or(
		alias{"num_local_experts", c.Experts, "num_experts", c.ExpertsToo}.resolve(keys),
		alias{"num_local_experts", c.Experts, "n_routed_experts", b.Routed}.resolve(keys),
		positive("num_local_experts", c.Experts),
	)
}

// needs reports the first required key that is missing.
func (k configKeys) needs(modelType string, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(strings.Split(name, "|"), k.given) {
			return fmt.Errorf("has no %s, which model_type %q needs", strings.ReplaceAll(name, "|", " or "), modelType)
		}
	}
	return nil
}
