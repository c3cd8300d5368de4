// Package configs reads experiments: TOML files, strictly. A [Config] composes
// the option structs that the other packages own; [Config.Build] turns it into
// a graph and its costs. Examples and the catalog of devices are embedded.
package configs

import (
	"time"

	"psim/costmodel"
	"psim/costmodel/arch"
	"psim/schedules"
)

// A Config is one experiment.
type Config struct {
	Schedule   schedules.Options           `toml:"schedule"`
	Times      costmodel.Times             `toml:"times"`
	Memory     costmodel.ActivationMemory  `toml:"memory"`
	Model      arch.Model                  `toml:"model"`
	Batch      schedules.Batch             `toml:"batch"`
	Parallel   schedules.Parallel          `toml:"parallel"`
	Train      arch.Training               `toml:"train"`
	Machine    costmodel.MachineOptions    `toml:"machine"`
	Collective schedules.CollectiveOptions `toml:"collective"`

	name    string
	folder  string // that paths in the file are relative to; empty for embedded ones
	sources []*source
	exact   time.Duration // see Exact
	changes []string      // see Executable
}

// defaults is a Config in which nothing is given.
func defaults() *Config {
	const bucket = 25_000_000 // PyTorch's default, "25MB"
	return &Config{
		Schedule: schedules.Options{Stages: 1, VirtualStages: 1},
		Parallel: schedules.Parallel{Data: 1, Tensor: 1, TensorOverlap: true, ScatterGather: true, Bucket: bucket, Overlap: true, Collectives: "nccl"},
		Train:    arch.Training{Precision: "fp32", Optimizer: "adamw", Recompute: "none"},
	}
}

// Name is the file's name without its folder and extension.
func (c *Config) Name() string { return c.name }

// Defined reports whether a dotted key or a section is given, in the file or
// by Set.
func (c *Config) Defined(key string) bool {
	for _, s := range c.sources {
		if s.defines(key) {
			return true
		}
	}
	return false
}

// With returns the experiment with further KEY=VALUE settings over it.
func (c *Config) With(sets ...string) (*Config, error) {
	next := defaults()
	next.name, next.folder, next.exact = c.name, c.folder, c.exact
	for _, s := range c.sources { // read again, for decoding writes into a source
		if err := next.add(s.label, s.text, s.lines); err != nil {
			return nil, err
		}
	}
	for _, set := range sets {
		if err := next.set(set); err != nil {
			return nil, err
		}
	}
	return next, next.validate()
}
