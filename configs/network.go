package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"psim/costmodel/arch"
)

// network reads [model], and the file it names. Its layers are those of one
// device of a tensor-parallel group.
func (c *Config) network() (arch.Network, error) {
	model := c.Model
	if model.Preset == "" && model.File == "" && model.Family == "" {
		return arch.Network{}, errors.New("preset is missing: name one (psim list models), or give file or family")
	}
	if err := model.Validate(); err != nil {
		return arch.Network{}, err
	}
	if model.File != "" {
		data, err := c.readBeside(model.File, maxSize)
		if err != nil {
			return arch.Network{}, fmt.Errorf("file = %q: %w", model.File, err)
		}
		if model, err = arch.ParseConfig(data, model.SequenceLength); err != nil {
			return arch.Network{}, fmt.Errorf("file = %q: %w", c.Model.File, err)
		}
	}
	return model.On(arch.Group{
		Devices: c.Parallel.Tensor, Sequence: c.Parallel.Sequence,
		Overlap: c.Parallel.TensorOverlap, Scatter: c.Parallel.ScatterGather,
	})
}

// readBeside reads a file that the configuration names, relative to its own
// folder, and that has at most so many bytes.
func (c *Config) readBeside(path string, most int) ([]byte, error) {
	if !filepath.IsAbs(path) && c.folder != "" {
		path = filepath.Join(c.folder, path)
	}
	return readRegular(path, most)
}

// readRegular reads a file that is neither a folder nor a device.
func readRegular(path string, most int) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("is not a file but a " + map[bool]string{true: "directory", false: "device"}[info.IsDir()])
	}
	return readFile(path, most)
}
