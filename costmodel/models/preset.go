package models

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"psim/configs/catalog"
)

// Preset is a network known by name.
type Preset struct {
	Name    string `toml:"-"`
	Summary string `toml:"summary"` // one line
	Model          // without Preset; other keys given with the name replace these
}

// Presets lists the networks that Model.Preset can name: the catalog's.
var Presets = sync.OnceValue(func() (list []Preset) {
	for _, e := range catalog.Read[Preset]("models") {
		e.Value.Name = e.Name
		list = append(list, e.Value)
	}
	return list
})

func findPreset(name string) (Preset, error) {
	i := slices.IndexFunc(Presets(), func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, fmt.Errorf("preset = %q: must be one of %s", name, strings.Join(catalog.Names("models"), ", "))
	}
	return Presets()[i], nil
}
