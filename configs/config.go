// Package configs reads experiments from TOML files, and refuses unknown keys. A [Config] is
// composed of the option structs of other packages; [Config.Build] turns it into a graph and its
// costs. Examples and the catalog of devices are embedded.
package configs

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"psim/configs/parallel"
	"psim/costmodel"
	"psim/costmodel/models"
	"psim/internal/setting"
	"psim/schedules"
	"psim/schedules/collective"
)

// A Config is one experiment. Load or Parse makes it: the zero value is not usable, because it has
// no source for errors to name.
type Config struct {
	Schedule   schedules.Options        `toml:"schedule"`
	Times      costmodel.Times          `toml:"times"`
	Memory     costmodel.MemoryOptions  `toml:"memory"`
	Model      models.Model             `toml:"model"`
	Batch      parallel.Batch           `toml:"batch"`
	Data       parallel.Data            `toml:"data"`
	Parallel   parallel.Options         `toml:"parallel"`
	Train      Training                 `toml:"train"`
	Machine    costmodel.MachineOptions `toml:"machine"`
	Collective collective.Options       `toml:"collective"`

	name     string
	folder   string // that paths in the file are relative to; empty for embedded ones
	sources  []*source
	exact    time.Duration     // see Exact
	changes  []string          // warnings of Executable and settle
	shared   *shared           // see Sharing
	devices  int               // of the target, for a network that was named without a plan
	files    map[string]string // texts of the files that a kept experiment names; nil for others, which read files
	dropped  []string          // keys of the file that have no meaning with a schedule named by --set
	site     Site
	siteKeys *source // its keys that are not given; nil without a site
}

// Settings describes the sections. One of [times], [model] and [collective] says what the tasks
// cost.
func (Config) Settings() []setting.Setting {
	times, model, rings := string(byTimes), string(byModel), collective.Names()
	last := len(rings) - 1
	return []setting.Setting{
		{Key: "schedule", Text: "Who computes what, in which order"},
		{Key: "times", Text: "Explicit task times: no network, no machine"},
		{
			Key: "memory", With: []string{times, model},
			Text: "With [times] the activations of one microbatch on one stage; with a network what a process holds " +
				"in addition to its tensors",
		},
		{Key: "model", Text: "A network, whose tasks are priced on a [machine]"},
		{
			Key: "batch", With: []string{times, model},
			Text: "How many samples; together with schedule.microbatches it must add up",
		},
		{
			Key: "data", With: []string{times, model},
			Text: "The samples of a data set, for the time of an epoch; psim exec --data names them",
		},
		{
			Key: "parallel", With: []string{times, model},
			Text: "The number of devices, in addition to the stages, and how they communicate",
		},
		{
			Key: "train", With: []string{model},
			Text: "What is kept for a parameter and an activation; with [times] only stack",
		},
		{Key: "machine", With: []string{model, string(byCollective)}, Text: "The devices, and the links between them"},
		{
			Key:  "collective",
			Text: "A collective by itself: schedule.name is " + strings.Join(rings[:last], ", ") + " or " + rings[last],
		},
	}
}

// defaults returns a Config without any given key.
func defaults() *Config {
	c := withDefaults()
	return &c
}

var withDefaults = sync.OnceValue(func() (c Config) {
	setting.Defaults(&c)
	return c
})

// Name returns the file's name without its folder and extension.
func (c *Config) Name() string { return c.name }

// Defined reports whether a dotted key or a section is given, in the file or by a setting.
func (c *Config) Defined(key string) bool {
	if slices.Contains(c.dropped, key) {
		return false
	}
	for _, s := range c.sources {
		if s.defines(key) {
			return true
		}
	}
	return false
}

// With returns the experiment with further KEY=VALUE settings.
func (c *Config) With(sets ...string) (*Config, error) {
	return c.with("", sets...)
}

// with does what With does, but errors name settings by a label, if there is one.
func (c *Config) with(label string, sets ...string) (*Config, error) {
	next := defaults()
	next.name, next.folder, next.exact, next.devices = c.name, c.folder, c.exact, c.devices
	next.sources, next.shared, next.files = c.asked(), c.shared, c.files
	for _, s := range next.sources {
		if _, err := s.decode(next); err != nil {
			return nil, err
		}
	}
	for _, set := range sets {
		if err := next.set(set); err != nil {
			return nil, err
		}
		if label != "" {
			s := next.sources[len(next.sources)-1]
			s.label, s.derived = label, true
		}
	}
	if err := cmp.Or(next.assumePlan(), next.lay()); err != nil {
		return nil, err
	}
	return next, next.validate()
}

// asked lists the sources without those that complete an assumed plan.
func (c *Config) asked() []*source {
	return slices.DeleteFunc(slices.Clone(c.sources), func(s *source) bool { return s.completes })
}
