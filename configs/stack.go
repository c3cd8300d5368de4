package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"psim/configs/catalog"
	"psim/costmodel"
	"psim/costmodel/models"
	"psim/costmodel/training"
	"psim/internal/setting"
)

// A Stack is a program that trains, and the settings that its name stands for in train.stack. All
// of them are ordinary keys, and keys that are given replace them.
type Stack struct {
	Name        string   `toml:"-"`
	Description string   `toml:"description"`
	Sets        []string `toml:"sets"` // lines of TOML
	// Devices holds settings for the devices whose names begin with a key and "-".
	Devices map[string][]string `toml:"devices"`
	// Mixtures holds settings for networks whose tokens choose experts and are not dropped.
	Mixtures []string          `toml:"mixtures"`
	Source   map[string]string `toml:"source"`
	// The values of keys that the program offers (see setting.Setting.Offered): Sequence applies
	// with tensor groups, if the program has any (Tensor).
	Schedules []string `toml:"schedules"`
	Zero      []int    `toml:"zero"`
	Recompute []string `toml:"recompute"`
	Tensor    bool     `toml:"tensor"`
	Sequence  []bool   `toml:"sequence"`
	// Context: the program divides sequences. Experts: it puts experts on several devices.
	Context   bool     `toml:"context"`
	Experts   bool     `toml:"experts"`
	Precision []string `toml:"precision"` // 32 and 16 bits if the file has none
	// Unsearched lists settings, as lines of TOML, that the program also has, but in another
	// implementation than Sets describe: searches do not try them, and nothing warns of them.
	Unsearched []string `toml:"unsearched"`
	// Unsaid lists settings, as lines of TOML, that the program has a flag for and that descriptions of its runs
	// often leave out.
	Unsaid []string `toml:"unsaid"`
}

// Stacks is the catalog of stacks, in the order of its file.
var Stacks = sync.OnceValue(func() (list []Stack) {
	for _, e := range catalog.Read[Stack]("stacks") {
		catalog.FoldAll(e.Value.Source)
		list = append(list, e.Value.called(e.Name))
	}
	return list
})

// stacksByName finds a stack of Stacks, without the sources of its values.
var stacksByName = catalog.ByName[Stack]("stacks")

// called completes the stack of a name.
func (s Stack) called(name string) Stack {
	s.Name = name
	if s.Precision == nil {
		s.Precision = []string{"fp32", "fp16", "bf16"}
	}
	return s
}

// Offers lists the values that the stack offers, by key. The setting of a key names the field
// of the stack that limits it: a list of values, or false if only the default is offered.
func (s Stack) Offers() Offers {
	offers, fields := Offers{}, map[string]reflect.Value{}
	for i := range reflect.TypeFor[Stack]().NumField() {
		fields[reflect.TypeFor[Stack]().Field(i).Tag.Get("toml")] = reflect.ValueOf(s).Field(i)
	}
	for key := range setting.Keys(Config{}) {
		if key.Offered == "" {
			continue
		}
		switch field := fields[key.Offered]; field.Kind() {
		case reflect.Bool:
			if !field.Bool() {
				offers[key.Path] = []string{fmt.Sprint(key.Default)}
			}
		case reflect.Slice:
			for i := range field.Len() {
				offers[key.Path] = append(offers[key.Path], fmt.Sprint(field.Index(i).Interface()))
			}
		}
	}
	return offers
}

// on lists the settings for a device. Settings of the device replace those of all devices.
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

// chipOf returns the name of the chip from the name of a device.
func chipOf(device string) string {
	chip, _, _ := strings.Cut(device, "-")
	return chip
}

// onBoard returns a stack's setting for a chip as it applies to one of its boards. Shares of the
// peak were fitted on the chip's first board in the catalog. On another board, whose power allows
// products more or less of the same peak, they scale with the efficiency of the boards.
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

// DiffersOnBoards reports whether a board of the chip has other settings than the first.
func (s Stack) DiffersOnBoards(chip string) bool {
	return slices.ContainsFunc(Catalog().Devices, func(d costmodel.Device) bool {
		differs := func(set string) bool { return onBoard(set, d.Name) != set }
		return chipOf(d.Name) == chip && slices.ContainsFunc(s.Devices[chip], differs)
	})
}

// kernelSettings lists the settings that the kernels of a transformer stand for without a stack.
// There are none for cores of a CPU, where launching costs nothing, and with a machine file,
// which has the times of its host.
func (c *Config) kernelSettings() []string {
	unnamed := c.Model.Kernels == "" && c.Model.Preset == ""
	if unnamed || c.measuredHost() || isCPU(c.deviceName()) || c.Defined("times") || !c.Model.Transformer() {
		return nil
	}
	if sets := c.Model.UsedKernels().Sets; len(sets) > 0 {
		return sets
	}
	return nil
}

// laid returns the settings of the catalog that lie under those of the experiment, and the source
// that they come from: its stack, or without one its kernels.
func (c *Config) laid() (from string, sets []string) {
	if c.Train.Stack != noStack {
		return "stack " + c.Train.Stack, c.stackSettings()
	}
	return "kernels " + c.Model.UsedKernels().Name, c.kernelSettings()
}

// stackSettings lists the settings that the stack of the experiment stands for. It omits those of
// [model] for networks without attention, those of a driver and an allocator on cores of a CPU,
// [machine.compute] if a machine file has rates, moments in 16 bits for optimizers without them, these and weights in
// 16 bits alone for training in others, sums after the last microbatch where nothing overlaps, and [times] unless the
// experiment has it.
func (c *Config) stackSettings() []string {
	stack := c.stack()
	if stack == nil {
		return nil
	}
	device, measured := c.Machine.Device, false
	if options, err := c.machineOver(nil); err == nil { // otherwise building reports the error
		device, measured = options.Device, c.Machine.File != "" && options.Compute.FLOPS > 0
	}
	sets := stack.on(device)
	if c.Model.Dropless() {
		sets = append(sets, stack.Mixtures...)
	}
	return slices.DeleteFunc(sets, func(set string) bool {
		return strings.HasPrefix(set, "times.") != c.Defined("times") ||
			strings.HasPrefix(set, "model.") && !c.Model.Transformer() ||
			strings.HasPrefix(set, "machine.compute.") && measured ||
			strings.HasPrefix(set, "train.moments ") && (!c.Train.HalvesMoments() || c.Train.Base() == "fp32") ||
			strings.HasPrefix(set, "train.master_weights ") && !c.Train.In16Bits() ||
			strings.HasPrefix(set, "parallel.sum_once ") && !c.Parallel.Overlap ||
			isCPU(device) && (strings.HasPrefix(set, "memory.") || strings.HasPrefix(set, "machine.memory_margin"))
	})
}

// laidBy returns the stack or kernels that set a key; "" if the catalog does not set it.
func (c *Config) laidBy(key string) string {
	from, sets := c.laid()
	if slices.ContainsFunc(sets, func(set string) bool { return strings.HasPrefix(set, key+" = ") }) {
		return from
	}
	return ""
}

// lay applies the settings of the catalog under those that are given.
func (c *Config) lay() error {
	from, sets := c.laid()
	if sets == nil && c.Machine.Site == "" {
		return nil
	}
	under, err := newSource(from, strings.Join(sets, "\n"), false)
	if err != nil {
		return err
	}
	site, over, err := c.readSite()
	if err != nil {
		return err
	}
	list := append([]*source{under}, c.sources...)
	if over != nil {
		list = append(list, over)
	}
	whole := defaults()
	for _, s := range list {
		if _, err := s.decode(whole); err != nil {
			return err
		}
	}
	whole.name, whole.folder, whole.sources, whole.exact, whole.shared = c.name, c.folder, c.sources, c.exact, c.shared
	whole.devices, whole.files, whole.site, whole.siteKeys = c.devices, c.files, site, over
	*c = *whole
	return nil
}

// Training is the [train] section: how the network is trained, and the stack, whose settings
// are defaults for all sections.
type Training struct {
	training.Options
	Stack string `toml:"stack"` // noStack, or a name of the catalog
}

// noStack is the value of train.stack without a stack.
const noStack = "none"

// stackNames lists the stacks of the catalog.
var stackNames = sync.OnceValue(func() []string { return catalog.Names("stacks") })

// Settings describes [train].
func (t Training) Settings() []setting.Setting {
	return append(t.Options.Settings(), setting.Setting{
		Key: "stack", Default: noStack, OneOf: append([]string{noStack}, stackNames()...),
		Text: "the program that trains: it stands for settings (psim list stacks -v), " +
			"which keys that are given replace",
	})
}

// Offers holds the values that a stack offers, by key. Keys that it does not limit are absent.
type Offers map[string][]string

// Has reports whether the stack offers a value of a key. A stack that offers one list of modules
// to recompute offers all of them, since users combine modules freely.
func (o Offers) Has(key, value string) bool {
	list, limited := o[key]
	if !limited || slices.Contains(list, value) {
		return true
	}
	return key == "train.recompute" && modules(value) && slices.ContainsFunc(list, modules)
}

// modules reports whether a recomputation is a list of modules.
func modules(recompute string) bool {
	return recompute != "none" && recompute != "selective" && recompute != "full"
}

// stack returns the stack of the experiment, or nil.
func (c *Config) stack() *Stack {
	s, ok := stacksByName(c.Train.Stack)
	if !ok {
		return nil
	}
	s = s.called(c.Train.Stack)
	return &s
}

// Offers returns the values that the stack of the experiment offers; nil, without limits, if there
// is not a stack.
func (c *Config) Offers() Offers {
	if s := c.stack(); s != nil {
		return s.Offers()
	}
	return nil
}

// Unsaid lists, as KEY=VALUE, the settings that the stack's program has a flag for and that the experiment does not
// give.
func (c *Config) Unsaid() (sets []string) {
	if s := c.stack(); s != nil {
		for _, set := range s.Unsaid {
			if key, value, _ := strings.Cut(set, " = "); !c.Defined(key) {
				sets = append(sets, key+"="+value)
			}
		}
	}
	return sets
}

// Unoffered lists, as lines of TOML, the settings of the experiment that its stack does not
// offer and that have an effect. A search that keeps to the stack would not try them.
func (c *Config) Unoffered() (settings []string) {
	offered := c.Offers()
	if offered == nil {
		return nil
	}
	for key := range setting.Keys(*c) {
		if key.Offered == "" || !key.Effective(*c) {
			continue
		}
		value := key.Value
		if reflect.ValueOf(value).IsZero() && key.Default != nil {
			value = key.Default
		}
		if !offered.Has(key.Path, fmt.Sprint(value)) {
			settings = append(settings, key.Path+" = "+setting.Quote(value))
		}
	}
	return settings
}

// notInStack warns of settings that the stack does not offer.
func (c *Config) notInStack() []string {
	s := c.stack()
	if s == nil {
		return nil
	}
	lacks := slices.DeleteFunc(c.Unoffered(), func(set string) bool { return slices.Contains(s.Unsearched, set) })
	if len(lacks) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("stack %s has no %s (psim list stacks -v): predicted as if it had", s.Name,
		strings.Join(lacks, ", no "))}
}

// NothingSelective reports whether selective recomputation has nothing to repeat, because fused
// attention keeps no scores. It is then the same as none.
func (c *Config) NothingSelective() bool {
	if c.Train.Recompute != "selective" || c.Train.Selective == training.SelectiveOperations {
		return false
	}
	model, err := c.model()
	return err == nil && model.Attention == models.AttentionFlash
}
