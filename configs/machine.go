package configs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"psim/costmodel"
	"psim/internal/setting"
)

// machine puts [machine] together: the machine file if it names one, and over it the keys that
// are given together with the file's name, or after it.
func (c *Config) machine(needsDevice bool) (costmodel.Machine, error) {
	options, err := c.machineOptions()
	if err != nil {
		return costmodel.Machine{}, err
	}
	if needsDevice && options.Device == "" && options.Compute.FLOPS == 0 {
		if c.Machine.File != "" {
			return costmodel.Machine{}, fmt.Errorf("file = %q: has no device, and this configuration names none: "+
				"set machine.device (psim list devices)", c.Machine.File)
		}
		return costmodel.Machine{}, errors.New(`device is missing: name one (psim list devices), ` +
			`such as --device h100-80gb-sxm, or give [machine.compute] flops = "10TFLOP/s", ` +
			`and for several devices [machine] link`)
	}
	m, err := options.Machine(catalogOf(options))
	if err != nil && c.Machine.File != "" {
		err = fmt.Errorf("file = %q, with the keys given here: %w", c.Machine.File, err)
	}
	return m, err
}

// UsualMargin is what every stack sets as machine.memory_margin: nine of ten runs whose
// memory is published took no more than was predicted over one less this.
const UsualMargin = 0.13

// closeMargin returns the share of a device's memory, at its end, within which a peak counts as
// close: the share that is to stay free, or else UsualMargin. It is 0 for cores of a CPU, which
// have neither driver nor allocator.
func closeMargin(d costmodel.Device) float64 {
	if d.Margin == 0 && !isCPU(d.Name) {
		return UsualMargin
	}
	return d.Margin
}

// SearchMargin returns the share of the memory that the plans of a search leave free, so that none
// of them is close: machine.memory_margin, given or by the stack, or else the share above which a
// run is close.
func (c *Config) SearchMargin() (float64, error) {
	if c.Defined("machine.memory_margin") {
		return c.Machine.MemoryMargin, nil
	}
	m, err := c.ReadMachine()
	return closeMargin(m.Device), err
}

// ReadMachine reads [machine], which must name a device.
func (c *Config) ReadMachine() (costmodel.Machine, error) {
	m, err := c.machine(true)
	if err != nil {
		err = c.problem("machine", err)
	}
	return m, err
}

// Joined returns an error if [machine] has no link that joins a number of devices.
func (c *Config) Joined(devices int) error {
	m, err := c.ReadMachine()
	if err != nil {
		return err
	}
	if err := m.Joined(devices); err != nil {
		return c.problem("machine", err)
	}
	return nil
}

// machineOptions returns [machine] over the machine file that it names, over the settings of the
// catalog that lie under both.
func (c *Config) machineOptions() (costmodel.MachineOptions, error) {
	if c.Machine.File == "" {
		return c.Machine, nil
	}
	_, sets := c.laid()
	return c.machineOver(sets)
}

// machineOver returns [machine] with its file over settings of the catalog.
func (c *Config) machineOver(sets []string) (costmodel.MachineOptions, error) {
	if c.Machine.File == "" {
		return c.Machine, nil
	}
	options, err := c.machineFile(c.Machine.File, sets)
	switch inside := new(Error); {
	case err == nil:
	case errors.As(err, &inside) && inside.Label == c.Machine.File:
		err = fmt.Errorf("file: %w", err)
	default:
		err = fmt.Errorf("file = %q: %w", c.Machine.File, err)
	}
	return options, err
}

// machineFile reads a file with a [machine] section over some settings, and applies the keys of
// this configuration over it. It ignores texts before the one that names the file: they describe
// another machine, since a file named by --set replaces the whole section of the configuration.
func (c *Config) machineFile(path string, sets []string) (costmodel.MachineOptions, error) {
	named := c.machineSource()
	data, _, err := c.machineText()
	if err != nil {
		return costmodel.MachineOptions{}, err
	}
	_, file, err := parseMachine(path, data)
	if err != nil {
		return costmodel.MachineOptions{}, err
	}
	ofMachine := slices.DeleteFunc(slices.Clone(sets), func(set string) bool {
		return !strings.HasPrefix(set, "machine.")
	})
	under, err := newSource("catalog", strings.Join(ofMachine, "\n"), false)
	if err != nil {
		return costmodel.MachineOptions{}, err
	}
	var over Config
	list := append([]*source{under, file}, c.sources[named:]...)
	if c.siteKeys != nil {
		list = append(list, c.siteKeys)
	}
	for _, s := range list {
		if _, err := s.decode(&over); err != nil {
			return costmodel.MachineOptions{}, err
		}
	}
	return over.Machine, inRange(append([]*source{file}, c.sources[named:]...))
}

// readMachine reads a machine file.
func (c *Config) readMachine(path string, by *source) ([]byte, error) {
	return c.readNamed(path, c.machinePath(path, by), maxSize)
}

// machinePath returns the path of a machine file: from the current folder if a flag names it, otherwise
// from the folder of the configuration.
func (c *Config) machinePath(path string, by *source) string {
	if _, err := os.Stat(path); err == nil && !by.lines {
		return path
	}
	return c.resolve(path)
}

// machineFile is a file with one section.
type machineFile struct {
	Machine costmodel.MachineOptions `toml:"machine"`
}

// Settings describes the file.
func (machineFile) Settings() []setting.Setting { return []setting.Setting{{Key: "machine"}} }

// parseMachine reads the [machine] section of a machine file; its values may still be
// out of range.
func parseMachine(label string, data []byte) (options costmodel.MachineOptions, s *source, err error) {
	problem := func(text string) error { return &Error{Label: label, Problem: text} }
	if len(bytes.TrimSpace(data)) == 0 {
		return options, nil, problem("is empty; a machine file has a [machine] section")
	}
	if err := checkText(label, data); err != nil {
		return options, nil, err
	}
	if s, err = newSource(label, string(data), true); err != nil {
		return options, nil, err
	}
	var file machineFile
	switch s.outOfRange, err = s.decode(&file); {
	case err != nil:
		return options, nil, err
	case !s.defines("machine"):
		return options, nil, problem("has no [machine] section, which a machine file needs")
	case file.Machine.File != "":
		return options, nil, errors.New("a machine file cannot name another")
	}
	return file.Machine, s, nil
}
