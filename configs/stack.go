package configs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Stack is a program that trains, and the settings that train.stack = its name stands
// for. None of them is hidden: each could be given by itself, and those that are win.
type Stack struct {
	Name        string   `toml:"-"`
	Description string   `toml:"description"`
	Sets        []string `toml:"sets"` // lines of TOML
	// Devices are settings that hold on devices whose names begin with a key and "-".
	Devices map[string][]string `toml:"devices"`
	// Mixtures are settings of networks whose tokens choose experts and are not dropped.
	Mixtures []string          `toml:"mixtures"`
	Source   map[string]string `toml:"source"`
	// Schedules, Zero and Recompute are what the program offers, and Sequence what it can
	// do beside its tensor groups, if it has any (Tensor).
	Schedules []string `toml:"schedules"`
	Zero      []int    `toml:"zero"`
	Recompute []string `toml:"recompute"`
	Tensor    bool     `toml:"tensor"`
	Sequence  []bool   `toml:"sequence"`
	// Context and Experts: it divides sequences, and puts experts on several devices.
	Context   bool     `toml:"context"`
	Experts   bool     `toml:"experts"`
	Precision []string `toml:"precision"` // nil: 32 and 16 bits
}

// Stacks is the catalog of stacks, in the order of its file.
var Stacks = sync.OnceValue(func() []Stack {
	return decodeCatalog("catalog/stacks.toml", true, func(s *Stack, name string) { s.Name = name })
})

// Offers lists the values that it has, by key; keys that it does not limit are absent.
func (s Stack) Offers() map[string][]string {
	offers := map[string][]string{}
	add := func(key string, value any) { offers[key] = append(offers[key], fmt.Sprint(value)) }
	for _, name := range s.Schedules {
		add("schedule.name", name)
	}
	for _, stage := range s.Zero {
		add("parallel.zero", stage)
	}
	for _, recompute := range s.Recompute {
		add("train.recompute", recompute)
	}
	for _, sequence := range s.Sequence {
		add("parallel.sequence", sequence)
	}
	for key, offered := range map[string]bool{"parallel.tensor": s.Tensor, "parallel.context": s.Context, "parallel.expert": s.Experts} {
		if !offered {
			add(key, 1)
		}
	}
	for _, precision := range s.precisions() {
		add("train.precision", precision)
	}
	return offers
}

// precisions lists those that it trains in.
func (s Stack) precisions() []string {
	if s.Precision != nil {
		return s.Precision
	}
	return []string{"fp32", "fp16", "bf16"}
}

// on lists the settings for a device, of which those of its own come in place of others.
func (s Stack) on(device string) []string {
	key := func(set string) string { k, _, _ := strings.Cut(set, " = "); return k }
	chip, _, _ := strings.Cut(device, "-")
	own := s.Devices[chip]
	return append(slices.DeleteFunc(slices.Clone(s.Sets), func(set string) bool {
		return slices.ContainsFunc(own, func(o string) bool { return key(o) == key(set) })
	}), own...)
}

// stackSettings lists the settings that the stack of the experiment stands for. Networks
// without attention have none of [model], cores of a CPU no driver and no allocator, and
// [times] has its own.
func (c *Config) stackSettings() []string {
	if c.Train.Stack == "none" { // and the catalog is not read
		return nil
	}
	i := slices.IndexFunc(Stacks(), func(s Stack) bool { return s.Name == c.Train.Stack })
	if i < 0 {
		return nil
	}
	device := c.Machine.Device
	if options, err := c.machineOptions(); err == nil { // if not, building will say so
		device = options.Device
	}
	sets := Stacks()[i].on(device)
	if c.Model.Dropless() {
		sets = append(sets, Stacks()[i].Mixtures...)
	}
	return slices.DeleteFunc(sets, func(set string) bool {
		return strings.HasPrefix(set, "times.") != c.Defined("times") ||
			strings.HasPrefix(set, "model.") && !c.Model.Transformer() || strings.HasPrefix(set, "machine.compute.") && c.Machine.File != "" ||
			isCPU(device) && (strings.HasPrefix(set, "memory.") || strings.HasPrefix(set, "machine.memory_margin"))
	})
}

// stackSets reports whether the stack stands for a key.
func (c *Config) stackSets(key string) bool {
	return slices.ContainsFunc(c.stackSettings(), func(set string) bool { return strings.HasPrefix(set, key+" = ") })
}

// layStack puts the settings of the stack under those that are given.
func (c *Config) layStack() error {
	sets := c.stackSettings()
	if sets == nil {
		return nil
	}
	under, err := newSource("train.stack = "+c.Train.Stack, strings.Join(sets, "\n"), false)
	if err != nil {
		return err
	}
	whole := defaults()
	for _, s := range append([]*source{under}, c.sources...) {
		if _, err := s.decode(whole); err != nil {
			return err
		}
	}
	whole.name, whole.folder, whole.sources, whole.exact, whole.shared = c.name, c.folder, c.sources, c.exact, c.shared
	*c = *whole
	return nil
}
