package collective

import (
	"psim/internal/setting"
	"psim/internal/units"
)

// Options is the [collective] section: a collective by itself.
type Options struct {
	Bytes      units.Bytes `toml:"bytes"`
	Ranks      int         `toml:"ranks"`
	Convention string      `toml:"convention"`
}

// Settings describes [collective].
func (Options) Settings() []setting.Setting {
	var conventions []string
	for _, c := range Conventions() {
		conventions = append(conventions, c.Name)
	}
	return []setting.Setting{
		{Key: "bytes", Required: true, Example: `"20GB"`, Range: setting.Positive(), Text: "of the whole tensor"},
		{Key: "ranks", Required: true, Example: "8", Range: setting.Count(), Text: "of the ring"},
		{Key: "convention", Default: "nccl", OneOf: conventions, Text: "which chunk goes first"},
	}
}
