package models

import (
	"fmt"
	"strings"
	"sync"

	"psim/configs/catalog"
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

func findPreset(name string) (Preset, error) {
	p, ok := presetsByName(name)
	if !ok {
		return p, fmt.Errorf("preset = %q: must be one of %s", name, strings.Join(presetNames(), ", "))
	}
	p.Name = name
	return p, nil
}
