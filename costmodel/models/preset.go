package models

import (
	"fmt"
	"strings"
	"sync"

	"psim/configs/catalog"
	"psim/internal/nearest"
)

// Preset is a network of the catalog.
type Preset struct {
	Name    string `toml:"-"`
	Summary string `toml:"summary"` // one line
	Model          // without Preset; other keys given with the name replace these
}

// Presets lists the networks that Model.Preset can name.
func Presets() (list []Preset) {
	for _, name := range presetNames() {
		p, _ := findPreset(name)
		list = append(list, p)
	}
	return list
}

var (
	presetsByName = catalog.ByName[Preset]("models")
	presetNames   = sync.OnceValue(func() []string { return catalog.Names("models") })
)

// NearPresets suggests presets for an unknown name: "; did you mean llama3-8b?", or nothing.
func NearPresets(name string) string {
	if best, ok := nearest.Word(name, presetNames()); ok {
		return "; did you mean " + best + "?"
	}
	if kin := nearest.Kin(name, presetNames()); kin != nil {
		return "; the nearest: " + strings.Join(kin, ", ")
	}
	return ""
}

func findPreset(name string) (Preset, error) {
	p, ok := presetsByName(name)
	if !ok {
		return p, fmt.Errorf("preset = %q: there is no such preset (psim list models); for another model, "+
			"give file = \"path/to/config.json\" instead%s", name, NearPresets(name))
	}
	p.Name = name
	return p, nil
}
