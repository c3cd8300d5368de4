package configs

import (
	"fmt"

	"psim/costmodel"
)

// ParseMachine reads a machine file by itself; label names it in errors.
func ParseMachine(label string, data []byte) (costmodel.Machine, error) {
	options, s, err := parseMachine(label, data)
	if err == nil {
		err = inRange([]*source{s})
	}
	if err != nil {
		return costmodel.Machine{}, err
	}
	m, err := options.Machine(catalogOf(options))
	if err != nil {
		err = fmt.Errorf("%s: machine.%w", label, err)
	}
	return m, err
}

// CatalogOf is the part of the catalog that a machine names.
func CatalogOf(o costmodel.MachineOptions) costmodel.Catalog { return catalogOf(o) }
