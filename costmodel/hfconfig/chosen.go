package hfconfig

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"psim/costmodel/models"
)

// A chosenConfig holds the key of types whose blocks a search chose one by one.
type chosenConfig struct {
	Blocks []chosenBlock `json:"block_configs"`
}

// A chosenBlock describes one of these blocks. What is not null or false besides is not modelled.
type chosenBlock struct {
	Attention struct {
		Group     *int `json:"n_heads_in_group"`
		Absent    bool `json:"no_op"`
		Linear    bool `json:"replace_with_linear"`
		Sinks     *int `json:"num_sink_tokens"`
		Window    *int `json:"window_length"`
		Sparse    any  `json:"sparsify"`
		Unshifted bool `json:"unshifted_sink"`
	} `json:"attention"`
	MLP struct {
		Width  *float64 `json:"ffn_mult"`
		Absent bool     `json:"no_op"`
		Linear bool     `json:"replace_with_linear"`
		Sparse any      `json:"sparsify"`
	} `json:"ffn"`
}

// chosenTypes lists these types.
func chosenTypes() map[string]llamaType {
	return map[string]llamaType{
		"nemotron-nas": {
			llamaConfig: llamaConfig{
				Vocab: 128256, Positions: 131072, Hidden: 8192, Inner: 1, Layers: 80, Heads: 64,
			},
			attentionBias: true, mlpBias: true,
			needs: []string{"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "block_configs"},
			block: chosen,
		},
	}
}

// chosen reads the blocks of Nemotron NAS (NVIDIA's modeling_decilm.py): two thirds of ffn_mult × hidden_size are the
// width of an MLP, up to a multiple of 256. Heads of keys and values follow from the heads of a group.
func chosen(m *models.Model, c llamaConfig, b blockConfig) error {
	if len(b.Blocks) != c.Layers {
		return fmt.Errorf("block_configs has %d entries: must have num_hidden_layers = %d", len(b.Blocks), c.Layers)
	}
	m.KVHeads, m.FFNHidden = 0, 1
	var words []string
	for i, block := range b.Blocks {
		heads, width, err := block.sizes(c)
		if err != nil {
			return fmt.Errorf("block_configs: block %d: %w", i, err)
		}
		words = append(words, dashed(heads)+":"+dashed(width))
		m.FFNHidden = max(m.FFNHidden, width)
	}
	m.BlockSizes = strings.Join(words, " ")
	return nil
}

// sizes returns the heads of keys and values and the width of the MLP, 0 for a part that the block lacks.
func (b chosenBlock) sizes(c llamaConfig) (heads, width int, err error) {
	a, mlp := b.Attention, b.MLP
	switch {
	case a.Linear || mlp.Linear:
		return 0, 0, errors.New("replace_with_linear = true is not supported; must be false")
	case a.Sinks != nil || a.Window != nil || a.Sparse != nil || a.Unshifted || mlp.Sparse != nil:
		return 0, 0, errors.New("num_sink_tokens, window_length, unshifted_sink and sparsify are not supported; " +
			"must be null or false")
	case a.Absent && mlp.Absent:
		return 0, 0, errors.New("psim models blocks with attention or an MLP, and this one has neither")
	}
	if !a.Absent {
		if a.Group == nil || *a.Group < 1 || c.Heads%*a.Group != 0 {
			return 0, 0, fmt.Errorf("n_heads_in_group must divide num_attention_heads = %d", c.Heads)
		}
		heads = c.Heads / *a.Group
	}
	if mlp.Absent {
		return heads, 0, nil
	}
	const multiple = 256
	if mlp.Width == nil || *mlp.Width <= 0 || *mlp.Width > 1000 {
		return 0, 0, errors.New("ffn_mult must be a number above 0, and at most 1000")
	}
	width = int(2 * *mlp.Width * float64(min(c.Hidden, 1<<30)) / 3)
	return heads, (width + multiple - 1) / multiple * multiple, nil
}

// dashed writes a size, or a dash for a part that is absent.
func dashed(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
