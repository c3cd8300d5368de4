package configs

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"psim/configs/catalog"
	"psim/internal/nearest"
)

// A KnownMachine is a machine of the catalog, which machine.file names.
type KnownMachine struct {
	Name        string            `toml:"-"`
	Description string            `toml:"description"`
	Machine     map[string]any    `toml:"machine"` // its [machine] section
	Source      map[string]string `toml:"source"`
}

// KnownMachines is the catalog of machines, in the order of its file.
var KnownMachines = sync.OnceValue(func() (list []KnownMachine) {
	for _, e := range catalog.Read[KnownMachine]("machines") {
		e.Value.Name = e.Name
		catalog.FoldAll(e.Value.Source)
		list = append(list, e.Value)
	}
	return list
})

// knownMachine returns the text of the machine file that stands for a name of the catalog.
func knownMachine(name string) (text []byte, ok bool) {
	list := KnownMachines()
	i := slices.IndexFunc(list, func(m KnownMachine) bool { return m.Name == name })
	if i < 0 {
		return nil, false
	}
	var b bytes.Buffer
	err := toml.NewEncoder(&b).Encode(map[string]any{"machine": list[i].Machine})
	return b.Bytes(), err == nil
}

// machineText returns the text of the machine file that is named, and whether it is of the
// catalog: a file of that name comes first.
func (c *Config) machineText() (data []byte, known bool, err error) {
	path := c.Machine.File
	data, err = c.readMachine(path, c.sources[c.machineSource()])
	if errors.Is(err, fs.ErrNotExist) {
		if text, ok := knownMachine(path); ok {
			return text, true, nil
		}
		if names := catalog.Names("machines"); !strings.ContainsAny(path, `./\`) {
			err = errors.New("no such file, and no machine of that name in the catalog" + nearest.Suggest(path, names))
		}
	}
	return data, false, err
}

// measuredHost reports whether [machine] is of a file that was measured, host and all. A machine
// of the catalog only names devices and links.
func (c *Config) measuredHost() bool {
	if c.Machine.File == "" {
		return false
	}
	_, known, _ := c.machineText()
	return !known
}

// deviceName returns the name of the device, that of the machine file if one is named.
func (c *Config) deviceName() string {
	options, err := c.machineOver(nil)
	if err != nil { // building reports it
		return c.Machine.Device
	}
	return options.Device
}
