package configs

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"psim/configs/catalog"
	"psim/costmodel"
	"psim/costmodel/models"
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
	// Unsearched are lines of TOML that it has beside these, by another implementation
	// than its settings describe: no search tries them, and nothing warns of them.
	Unsearched []string `toml:"unsearched"`
}

// Stacks is the catalog of stacks, in the order of its file.
var Stacks = sync.OnceValue(func() (list []Stack) {
	for _, e := range catalog.Read[Stack]("stacks") {
		e.Value.Name = e.Name
		catalog.FoldAll(e.Value.Source)
		list = append(list, e.Value)
	}
	return list
})

// Offers lists the values that it has.
func (s Stack) Offers() Offers {
	offers := Offers{}
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
	own := slices.Clone(s.Devices[chipOf(device)])
	for i, set := range own {
		own[i] = onBoard(set, device)
	}
	return append(slices.DeleteFunc(slices.Clone(s.Sets), func(set string) bool {
		return slices.ContainsFunc(own, func(o string) bool { return key(o) == key(set) })
	}), own...)
}

// chipOf cuts the name of a board's chip from a device's.
func chipOf(device string) string {
	chip, _, _ := strings.Cut(device, "-")
	return chip
}

// onBoard returns a stack's setting for a chip as it is on one of its boards. Shares of the
// peak were fitted on the chip's first board in the catalog; on another, where power allows
// products more or less of the same peak, they are in proportion to the boards' own.
func onBoard(set, device string) string {
	share := map[string]func(costmodel.Efficiency) float64{
		"machine.compute.efficiency":     func(e costmodel.Efficiency) float64 { return e.BF16 },
		"machine.compute.efficiency_fp8": func(e costmodel.Efficiency) float64 { return e.FP8 },
		"machine.compute.efficiency_fp4": func(e costmodel.Efficiency) float64 { return e.FP4 },
	}
	key, value, _ := strings.Cut(set, " = ")
	of, fitted := share[key], 0.0
	if _, err := fmt.Sscan(value, &fitted); of == nil || err != nil {
		return set
	}
	list := Catalog().Devices
	first := slices.IndexFunc(list, func(d costmodel.Device) bool { return chipOf(d.Name) == chipOf(device) })
	this := slices.IndexFunc(list, func(d costmodel.Device) bool { return d.Name == device })
	if this < 0 || of(list[this].Efficiency) == of(list[first].Efficiency) {
		return set
	}
	return fmt.Sprintf("%s = %.4g", key, fitted*of(list[this].Efficiency)/of(list[first].Efficiency))
}

// differsOnBoards reports whether a board of the chip has other settings than the first.
func (s Stack) differsOnBoards(chip string) bool {
	return slices.ContainsFunc(Catalog().Devices, func(d costmodel.Device) bool {
		return chipOf(d.Name) == chip && slices.ContainsFunc(s.Devices[chip], func(set string) bool { return onBoard(set, d.Name) != set })
	})
}

// kernelSettings lists the settings that the kernels of a transformer stand for where no
// stack names the program. Cores of a CPU are launched for nothing, and a machine file says
// what its host takes.
func (c *Config) kernelSettings() []string {
	if c.Model.Kernels == "" && c.Model.Preset == "" || c.Machine.File != "" || isCPU(c.Machine.Device) || c.Defined("times") || !c.Model.Transformer() {
		return nil
	}
	kernels := c.Model.UsedKernels()
	i := slices.IndexFunc(models.KernelSets(), func(k models.KernelSet) bool { return k.Name == kernels })
	if i < 0 || len(models.KernelSets()[i].Sets) == 0 {
		return nil
	}
	return models.KernelSets()[i].Sets
}

// laid returns the settings of the catalog that lie under the experiment's own, and what
// stands for them: its stack, or without one its kernels.
func (c *Config) laid() (from string, sets []string) {
	if c.Train.Stack != noStack {
		return "stack " + c.Train.Stack, c.stackSettings()
	}
	return "kernels " + c.Model.UsedKernels(), c.kernelSettings()
}

// stackSettings lists the settings that the stack of the experiment stands for. Networks
// without attention have none of [model], cores of a CPU no driver and no allocator, what was
// measured has its own [machine.compute], and [times] its own.
func (c *Config) stackSettings() []string {
	stack := c.stack()
	if stack == nil {
		return nil
	}
	device, measured := c.Machine.Device, false
	if options, err := c.machineOver(nil); err == nil { // if not, building will say so
		device, measured = options.Device, c.Machine.File != "" && options.Compute.FLOPS > 0
	}
	sets := stack.on(device)
	if c.Model.Dropless() {
		sets = append(sets, stack.Mixtures...)
	}
	return slices.DeleteFunc(sets, func(set string) bool {
		return strings.HasPrefix(set, "times.") != c.Defined("times") ||
			strings.HasPrefix(set, "model.") && !c.Model.Transformer() || strings.HasPrefix(set, "machine.compute.") && measured ||
			isCPU(device) && (strings.HasPrefix(set, "memory.") || strings.HasPrefix(set, "machine.memory_margin"))
	})
}

// laidBy returns what stands for a key in the catalog; "" is nothing.
func (c *Config) laidBy(key string) string {
	from, sets := c.laid()
	if slices.ContainsFunc(sets, func(set string) bool { return strings.HasPrefix(set, key+" = ") }) {
		return from
	}
	return ""
}

// lay puts the settings of the catalog under those that are given.
func (c *Config) lay() error {
	from, sets := c.laid()
	if sets == nil {
		return nil
	}
	under, err := newSource(from, strings.Join(sets, "\n"), false)
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
