package models

import (
	"errors"
	"fmt"
	"strings"

	"psim/costmodel/network"
	"psim/internal/setting"
)

// Blocks with a window may have other heads than blocks that attend to all tokens (MiMo-V2-Flash, Step 3.5,
// Gemma 4), and where they are may follow no rule. The heads of the model are then those of blocks without a window.

// The letters of Model.Windows.
const (
	blockFull   = 'F'
	blockWindow = 'W'
)

// withWindow returns the model with the attention of its i-th block.
func (m Model) withWindow(i int) Model {
	if m.Windows == "" {
		return m
	}
	if windowed := m.Windows[i] == blockWindow; windowed {
		m = m.inWindow()
		m.KeysAsValues = false
	} else {
		m.Window, m.Sinks = 0, m.Sinks && !m.WindowSinks
	}
	m.Windows, m.WindowSinks = "", false
	m.WindowHeads, m.WindowKVHeads, m.WindowHeadDim = 0, 0, 0
	return m
}

// inWindow returns the model with the heads of blocks with a window.
func (m Model) inWindow() Model {
	if m.WindowHeads > 0 {
		m.Heads = m.WindowHeads
	}
	if m.WindowKVHeads > 0 {
		m.KVHeads = m.WindowKVHeads
	}
	if m.WindowHeadDim > 0 {
		m.HeadDim = m.WindowHeadDim
	}
	return m
}

// checkWindows requires a letter for each block, and what the letters need.
func (m Model) checkWindows() error {
	if m.Windows == "" {
		for s, value := range setting.Given(m) {
			switch s.Key {
			case "window_heads", "window_kv_heads", "window_head_dim", "window_sinks", "keys_as_values":
				return fmt.Errorf("%s = %v: has no meaning without windows, which says which blocks have a window",
					s.Key, value)
			}
		}
		return nil
	}
	for i, letter := range m.Windows {
		if letter != blockFull && letter != blockWindow {
			return fmt.Errorf("windows has %q at block %d: must be W (a window) or F (all earlier tokens)", letter, i)
		}
	}
	switch in := m.inWindow(); {
	case len(m.Windows) != m.Layers:
		return fmt.Errorf("windows has %d letters: must have layers = %d", len(m.Windows), m.Layers)
	case m.Window == 0 && strings.ContainsRune(m.Windows, blockWindow):
		return errors.New("windows: has no meaning without window, the tokens that its blocks with the letter W see")
	case !strings.ContainsRune(m.Windows, blockWindow) && m.WindowHeads+m.WindowKVHeads+m.WindowHeadDim > 0:
		return errors.New("window_heads, window_kv_heads and window_head_dim: have no meaning with windows that has " +
			"no letter W; remove them")
	case m.FullAttentionEvery > 0:
		return errors.New("windows: says which blocks have a window; remove full_attention_every")
	case m.Pattern != "" || m.latent() || m.delta():
		return errors.New("windows: has no meaning with pattern, kv_lora_rank or gated delta nets")
	case in.Heads%in.KVHeads != 0:
		return fmt.Errorf("window_kv_heads = %d: must divide window_heads = %d", in.KVHeads, in.Heads)
	case m.WindowSinks && !m.Sinks:
		return errors.New("window_sinks = true: has no meaning without sinks")
	}
	return nil
}

// windowSettings describes the keys of blocks whose heads differ.
func windowSettings() []setting.Setting {
	llama, size := llamas(), setting.Between(0, maxSize)
	row := func(key, example, unset, text string) setting.Setting {
		return setting.Setting{Key: key, Example: example, Range: size, With: llama, Unset: unset, Text: text}
	}
	return []setting.Setting{
		{
			Key: "windows", Example: `"FWWF"`, With: llama, Unset: "all blocks have it, or as full_attention_every",
			Text: "a letter for each block: W, its attention has the window, or F, it sees all earlier tokens",
		},
		row("window_heads", "96", "heads", "query heads of blocks with a window, with windows (Step 3.5)"),
		row("window_kv_heads", "8", "kv_heads", "their key and value heads (MiMo-V2-Flash)"),
		row("window_head_dim", "256", "head_dim", "features of their heads (Gemma 4)"),
		{Key: "window_sinks", Default: false, With: llama, Text: "only blocks with a window have the sinks"},
		{
			Key: "keys_as_values", Default: false, With: llama,
			Text: "values of blocks without a window are what the projection of keys makes, as in Gemma 4",
		},
		{
			Key: "value_norm", Default: false, With: llama,
			Text: "a norm of every head's values, without gains, as in Gemma 4",
		},
		{
			Key: "head_gate", Default: false, With: llama,
			Text: "the result of each head of attention is multiplied with a sigmoid that a product makes (Step 3.5)",
		},
	}
}

// gateOps makes the gate of attention, if the model has one: of each feature or of each head.
func (m Model) gateOps() []network.Op {
	s, width := m.SequenceLength, m.Heads*m.valueDim()
	switch {
	case m.AttentionGate:
		return []network.Op{m.activation("self_attn.sigmoid", s, width), m.gate("self_attn.gate", s, width)}
	case m.HeadGate: // each pass reads the results of attention and few numbers
		gate := network.NewElementwise("self_attn.gate", elements(s, width), traffic(2, 2), traffic(4, 2))
		return []network.Op{m.activation("self_attn.sigmoid", s, m.Heads), gate.Divided()}
	}
	return nil
}

// gateBuffers adds what the gate of attention keeps. The projection of the results reads the gate's, and the
// context is kept for I alone.
func (m Model) gateBuffers(buffers []network.Buffer) []network.Buffer {
	width := m.Heads * m.valueDim()
	gated := network.Buffer{ // the gradient of a sigmoid follows from its result
		Name: "self_attn.sigmoid.output", Shape: network.Dims{m.SequenceLength, width}, Sharded: true,
	}
	switch {
	case m.HeadGate:
		gated.Shape = network.Dims{m.SequenceLength, m.Heads}
	case !m.AttentionGate:
		return buffers
	case m.kernels().FusedGate:
		gated.Name = "self_attn.sigmoid.input"
	}
	for i := range buffers {
		if buffers[i].Name == "self_attn.context" {
			buffers[i].Lifetime = network.ForwardToInput
		}
	}
	buffers = append(buffers, gated)
	return append(buffers, network.Buffer{
		Name: "self_attn.o_proj.input", Shape: network.Dims{m.SequenceLength, width}, Lifetime: network.ForwardToWeight,
		Sharded: true,
	})
}

// valueWidth returns the features that the projection of values makes: none if the values are the keys.
func (m Model) valueWidth() int {
	if m.KeysAsValues {
		return 0
	}
	return m.KVHeads * m.valueDim()
}

// gateWidth returns the features that the projection of a gate of heads makes.
func (m Model) gateWidth() int {
	if m.HeadGate {
		return m.Heads
	}
	return 0
}
