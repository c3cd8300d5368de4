package arch

import (
	"fmt"
	"slices"
	"strings"
)

// Model is the [model] section. Exactly one of Preset, File and Family is
// given. A zero or absent number stands for the default.
type Model struct {
	Preset string `toml:"preset"` // a name of Presets; other keys given beside it replace the preset's
	File   string `toml:"file"`   // path of a Hugging Face config.json, to be read by the caller for ParseConfig
	Family string `toml:"family"` // gpt, llama, mixtral or mlp

	Layers         int   `toml:"layers"`          // blocks; linear layers of the mlp
	Hidden         int   `toml:"hidden"`          // features of a token
	Heads          int   `toml:"heads"`           // query heads
	KVHeads        int   `toml:"kv_heads"`        // key and value heads of llama and mixtral; default heads
	HeadDim        int   `toml:"head_dim"`        // features of a head of llama and mixtral; default hidden / heads
	FFNHidden      int   `toml:"ffn_hidden"`      // features inside the MLP, or an expert; default 4 × hidden for gpt, none for the others
	Vocab          int   `toml:"vocab"`           // rows of the embedding
	SequenceLength int   `toml:"sequence_length"` // tokens per sample; a preset has its training length
	Positions      int   `toml:"positions"`       // rows of gpt's position table; default sequence_length
	Tied           *bool `toml:"tied"`            // head shares the embedding's table; default true for gpt, false for the others
	// Experts and ExpertsPerToken: a block of mixtral has so many MLPs, and every
	// token goes through so many of them.
	Experts         int  `toml:"experts"`
	ExpertsPerToken int  `toml:"experts_per_token"`
	QKVBias         bool `toml:"qkv_bias"` // llama and mixtral: biases of queries, keys and values, as Qwen 2 has

	Dropout float64 `toml:"dropout"` // rate of all dropout in gpt, 0 (none) to less than 1
	// Kernels of a transformer: KernelsFused, the default, or KernelsMegatron.
	Kernels string `toml:"kernels"`
}

const (
	familyGPT     = "gpt"
	familyLlama   = "llama"
	familyMixtral = "mixtral"
	familyMLP     = "mlp"
	familyVGG     = "vgg" // of presets only: it has no key to set
)

// Limits that keep a mistyped number from filling the memory, or a count from
// passing 63 bits.
const (
	maxLayers  = 10_000
	maxExperts = 1_000
	maxSize    = 1 << 30
	maxFLOPs   = 1 << 60
)

func (m Model) transformer() bool {
	return m.Family == familyGPT || m.Family == familyLlama || m.Family == familyMixtral
}

// Validate reports the first key that is missing, out of range or without
// meaning for this model. The contents of File are not looked at.
func (m Model) Validate() error {
	_, err := m.resolve()
	return err
}

// Network builds the layers. A Model with File has to be replaced by what
// ParseConfig makes of that file first.
func (m Model) Network() (Network, error) {
	r, err := m.resolve()
	if err != nil {
		return Network{}, err
	}
	var n Network
	switch r.Family {
	case familyGPT:
		n = gpt(r)
	case familyLlama, familyMixtral:
		n = llama(r)
	case familyMLP:
		n = mlp(r)
	case familyVGG:
		n = vgg16(m.Preset == "vgg16")
	default:
		return Network{}, fmt.Errorf("file = %q: has not been read; pass its contents to ParseConfig", m.File)
	}
	n.Name = m.name()
	return n, nil
}

// resolve overlays the preset, fills defaults and checks every key.
func (m Model) resolve() (Model, error) {
	if err := m.checkSource(); err != nil {
		return Model{}, err
	}
	if m.File != "" {
		return m, m.checkKeys("file", "sequence_length")
	}
	r := m
	if m.Preset != "" {
		base, err := findPreset(m.Preset)
		if err != nil {
			return Model{}, err
		}
		r = m.overlay(base.Model)
	}
	if err := m.checkKeys(m.source(), familyKeys(r.Family)...); err != nil {
		return Model{}, err
	}
	r = r.defaults()
	return r, r.checkNumbers()
}

// checkSource: exactly one of preset, file and family, and a known family.
func (m Model) checkSource() error {
	given := 0
	for _, source := range []string{m.Preset, m.File, m.Family} {
		if source != "" {
			given++
		}
	}
	if given != 1 {
		return fmt.Errorf("preset = %q, file = %q, family = %q: exactly one of them must be given", m.Preset, m.File, m.Family)
	}
	if m.Family != "" {
		return oneOf("family", m.Family, familyGPT, familyLlama, familyMixtral, familyMLP)
	}
	return nil
}

func (m Model) source() string {
	switch {
	case m.Preset != "":
		return fmt.Sprintf("preset %q", m.Preset)
	case m.File != "":
		return "file"
	}
	return fmt.Sprintf("family %q", m.Family)
}

type field struct {
	key   string
	value *int
}

// fields lists the numeric keys in the order of the struct.
func (m *Model) fields() []field {
	return []field{
		{"layers", &m.Layers}, {"hidden", &m.Hidden}, {"heads", &m.Heads}, {"kv_heads", &m.KVHeads},
		{"head_dim", &m.HeadDim}, {"ffn_hidden", &m.FFNHidden}, {"vocab", &m.Vocab},
		{"sequence_length", &m.SequenceLength}, {"positions", &m.Positions},
		{"experts", &m.Experts}, {"experts_per_token", &m.ExpertsPerToken},
	}
}

// familyKeys lists the keys that mean something for a family.
func familyKeys(family string) []string {
	switch family {
	case familyGPT:
		return []string{"layers", "hidden", "heads", "ffn_hidden", "vocab", "sequence_length", "positions", "tied", "dropout", "kernels"}
	case familyLlama:
		return []string{"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab", "sequence_length", "tied", "qkv_bias", "kernels"}
	case familyMixtral:
		return append(familyKeys(familyLlama), "experts", "experts_per_token")
	case familyMLP:
		return []string{"layers", "hidden"}
	}
	return nil
}

// checkKeys refuses given keys that are not legal beside source.
func (m Model) checkKeys(source string, legal ...string) error {
	for _, f := range m.fields() {
		if *f.value != 0 && !slices.Contains(legal, f.key) {
			return fmt.Errorf("%s = %d: has no meaning with %s", f.key, *f.value, source)
		}
	}
	if m.Tied != nil && !slices.Contains(legal, "tied") {
		return fmt.Errorf("tied = %v: has no meaning with %s", *m.Tied, source)
	}
	if m.QKVBias && !slices.Contains(legal, "qkv_bias") {
		return fmt.Errorf("qkv_bias = true: has no meaning with %s", source)
	}
	if m.Dropout != 0 && !slices.Contains(legal, "dropout") {
		return fmt.Errorf("dropout = %g: has no meaning with %s", m.Dropout, source)
	}
	if m.Kernels != "" && !slices.Contains(legal, "kernels") {
		return fmt.Errorf("kernels = %q: has no meaning with %s", m.Kernels, source)
	}
	return nil
}

// overlay is base with the keys that m gives.
func (m Model) overlay(base Model) Model {
	own := m.fields()
	for i, f := range base.fields() {
		if *own[i].value != 0 {
			*f.value = *own[i].value
		}
	}
	if m.Tied != nil {
		base.Tied = m.Tied
	}
	if m.Dropout != 0 {
		base.Dropout = m.Dropout
	}
	if m.Kernels != "" {
		base.Kernels = m.Kernels
	}
	base.QKVBias = base.QKVBias || m.QKVBias
	return base
}

// name is the preset's, with what differs from it, or family-layersxhidden.
func (m Model) name() string {
	if m.Preset == "" {
		return fmt.Sprintf("%s-%dx%d", m.Family, m.Layers, m.Hidden)
	}
	var changed []string
	for _, f := range m.fields() {
		if *f.value != 0 && f.key != "sequence_length" {
			changed = append(changed, fmt.Sprintf("%s %d", f.key, *f.value))
		}
	}
	if m.Tied != nil {
		changed = append(changed, fmt.Sprintf("tied %v", *m.Tied))
	}
	if m.QKVBias {
		changed = append(changed, "qkv_bias")
	}
	if m.Dropout != 0 {
		changed = append(changed, fmt.Sprintf("dropout %g", m.Dropout))
	}
	if changed == nil {
		return m.Preset
	}
	return m.Preset + " (" + strings.Join(changed, ", ") + ")"
}
