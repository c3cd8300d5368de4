package configs

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"psim/configs/catalog"
	"psim/configs/foreign"
	"psim/costmodel/models"
	"psim/internal/setting"
)

// presetMark begins a name that always means a preset, even if there is a file or an example of
// that name.
const presetMark = "model:"

// A located text is what the name of a configuration stands for.
type located struct {
	label, folder string // folder: that paths in the text are relative to
	data          []byte
	assumed       bool   // the text names a network, and its plan is psim's
	named         string // by the result that the text is from; "" for another text
}

// lookUp finds a text by its name: a file, an embedded example, or a preset of the catalog, in this
// order. A file may also be the config.json of a network.
func lookUp(name string) (located, error) {
	problem := func(text string, cause error) error { return &Error{Label: name, Problem: text, Cause: cause} }
	if name == "" {
		return located{}, &Error{
			Label: `""`, Problem: "is an empty name; name a .toml file or an example (psim list examples)",
			Cause: os.ErrNotExist,
		}
	}
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() {
		data, err := readFile(name, maxNetwork)
		if err != nil {
			return located{}, problem(err.Error(), err)
		}
		return located{label: name, folder: filepath.Dir(name), data: data}.read()
	}
	if data, ok := example(name); ok { // even if there is a folder of that name
		return located{label: name, data: data}, nil
	}
	if data, ok := presetPlan(name); ok {
		return located{label: name, data: data, assumed: true}, nil
	}
	switch {
	case err == nil && foreign.ResultFolder(name):
		return lookUp(filepath.Join(name, "result.json"))
	case err == nil && foreign.ModelFolder(name):
		return lookUp(filepath.Join(name, "config.json"))
	case err == nil:
		return located{}, problem(foreign.Folder(name), nil)
	case strings.HasPrefix(name, presetMark):
		return located{}, problem(noPreset(strings.TrimPrefix(name, presetMark)), os.ErrNotExist)
	case !os.IsNotExist(err):
		return located{}, problem("cannot be read: "+errors.Unwrap(err).Error(), err)
	}
	return located{}, problem(noFile(name), os.ErrNotExist)
}

// read makes a configuration of the content of a file: of a network, of a result that holds one, or the text itself.
func (t located) read() (located, error) {
	run, ofResult := foreign.Result(t.data)
	switch {
	case foreign.Network(t.data) && !ofResult:
		keys := fmt.Sprintf("file = %q", filepath.Base(t.label))
		if n := foreign.Positions(t.data); n > usualLength {
			keys += fmt.Sprintf("\nsequence_length = %d", usualLength)
		}
		t.data, t.assumed = plan(keys, true), true
	case ofResult && run.Problem() != "":
		return located{}, &Error{Label: t.label, Problem: run.Problem()}
	case ofResult:
		t.named, t.label = run.Name, "the configuration in "+t.label
		t.data = withoutDefaults(t, run.Config)
	case len(t.data) > maxSize:
		return located{}, &Error{Label: t.label, Problem: tooLarge(maxSize)}
	}
	return t, nil
}

// withoutDefaults returns the configuration of a result as a file. A result holds every default, and a file that gave
// these would ask for them: keys without which the configuration is the same are left out.
func withoutDefaults(t located, object map[string]any) []byte {
	read := func() ([]byte, map[string]any) {
		var text bytes.Buffer
		if WriteObject(&text, nil, object) != nil {
			return nil, nil // of null, which TOML lacks
		}
		t.data = text.Bytes()
		c, err := parse(t, Target{}, nil)
		if err != nil {
			return t.data, nil
		}
		return t.data, c.Object()
	}
	data, whole := read()
	for _, section := range slices.Sorted(maps.Keys(object)) {
		table, _ := object[section].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(table)) {
			value := table[key]
			delete(table, key)
			shorter, same := read()
			if same != nil && reflect.DeepEqual(same, whole) {
				data = shorter
			} else {
				table[key] = value
			}
		}
	}
	return data
}

func presets() (names []string) {
	for _, p := range models.Presets() {
		names = append(names, p.Name)
	}
	return names
}

// presetPlan returns a plan for a preset.
func presetPlan(name string) ([]byte, bool) {
	name = strings.TrimPrefix(name, presetMark)
	list := models.Presets()
	i := slices.IndexFunc(list, func(p models.Preset) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return plan(fmt.Sprintf("preset = %q", name), models.Model{Preset: name}.Transformer()), true
}

// plan returns a configuration for a network that is named without one: every device has the whole
// network, and one sample in a step. It has no machine.
func plan(network string, transformer bool) []byte {
	text := `# A plan to start from, for a network that was named without one: every device trains the
# whole network on a sample of its own. psim search finds better plans.

[schedule]
name = "ddp"

[model]
` + network + `

[batch]
micro = 1
`
	if transformer {
		text += "\n[train]\nprecision = \"" + usualPrecision + "\"\n"
	}
	return []byte(text)
}

// usualLength is the number of tokens of a sample where a network's file names none. The positions that the file
// counts say how long a text may be that the network is used on, not those of training.
const usualLength = 2048

// usualPrecision is that of a plan for a transformer, on devices that have it.
const usualPrecision = "bf16"

// A Target is where a configuration that names no machine is to run.
type Target struct {
	Device         string // of the catalog
	Devices        int    // for a network that is named without a plan; 0 is one
	DevicesPerNode int    // 0 leaves all in one node
	Network        string // of the catalog, between nodes
}

// LoadOn does what Load does, for a target. It refuses a machine for a configuration that names one.
func LoadOn(pathOrName string, on Target, sets ...string) (*Config, error) {
	found, err := lookUp(pathOrName)
	if err != nil {
		return nil, err
	}
	return parse(found, on, sets)
}

// HasPlan reports whether the configuration says how the network is divided. It does not if only
// the network was named.
func (c *Config) HasPlan() bool { return len(c.sources) == 0 || !c.sources[0].assumed }

// target applies a target, under the settings KEY=VALUE.
func (c *Config) target(on Target) error {
	for _, f := range []struct{ flag, key, value string }{
		{"device", "machine.device", on.Device},
		{"devices-per-node", "machine.devices_per_node", numeral(on.DevicesPerNode)},
		{"network", "machine.network", on.Network},
	} {
		if f.value == "" {
			continue
		}
		flag := "--" + f.flag + " " + f.value
		if c.sources[0].defines("machine") {
			return &Error{Label: flag, Problem: fmt.Sprintf("%s names a machine of its own; to change it, give "+
				"--set %s=%s", c.sources[0].label, f.key, f.value)}
		}
		if err := c.derive(flag, f.key+"="+f.value); err != nil {
			return err
		}
	}
	return nil
}

// assumePlan completes the plan of a network that was named without one, as far as nobody asked for
// another: devices that the settings do not divide a replica among have further replicas, and several
// replicas are sharded, unless the stack cannot. It applies again when settings are added.
func (c *Config) assumePlan() error {
	if c.HasPlan() {
		return nil
	}
	given := func(key string) bool {
		return slices.ContainsFunc(c.sources[1:], func(s *source) bool { return s.defines(key) })
	}
	if n := c.devices; n > 1 && !given("parallel.data") {
		each := max(1, c.Parallel.Tensor) * max(1, c.Parallel.Context)
		if c.Schedule.Name != ddpName && c.Schedule.Name != fsdpName {
			each *= max(1, c.Schedule.Stages)
		}
		if err := c.complete("--devices "+numeral(n), "parallel.data="+numeral(max(1, n/each))); err != nil {
			return err
		}
	}
	if c.Parallel.Data < 2 || given("schedule.name") || given("parallel.zero") ||
		!c.Offers().Has("parallel.zero", "3") {
		return nil
	}
	return c.complete("several replicas", "schedule.name="+fsdpName)
}

// complete does what derive does, with a setting that assumePlan may replace.
func (c *Config) complete(label, set string) error {
	err := c.derive(label, set)
	c.sources[len(c.sources)-1].completes = true
	return err
}

// DevicesAsked returns the number of devices of the target, or 0.
func (c *Config) DevicesAsked() int { return c.devices }

// numeral writes a number that is given, or "".
func numeral(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// derive applies a setting that follows from something else, which a label names in errors.
func (c *Config) derive(label, set string) error {
	err := c.set(set)
	if i := len(c.sources) - 1; c.sources[i].label == set {
		c.sources[i].label, c.sources[i].derived = label, true
	}
	var wrong *Error
	if errors.As(err, &wrong) && wrong.Label == set {
		wrong.Label, wrong.Override = label, false
	}
	return err
}

// assumePrecision takes another precision than the usual one if the device computes faster in it,
// and none was asked for.
func (c *Config) assumePrecision() error {
	asked := slices.ContainsFunc(c.sources[1:], func(s *source) bool { return s.defines("train.precision") })
	if c.HasPlan() || asked || !c.Defined("train.precision") {
		return nil
	}
	device, ok := devicesByName(c.Machine.Device)
	if !ok {
		return nil
	}
	best := usualPrecision
	for _, other := range []string{"fp16", "fp32"} {
		if device.PeakIn(other) > device.PeakIn(best) {
			best = other
		}
	}
	if best == usualPrecision {
		return nil
	}
	return c.derive("device "+c.Machine.Device, "train.precision="+best)
}

// planAssumptions names what was assumed for a network that was named without a plan.
func (c *Config) planAssumptions() []string {
	if c.HasPlan() {
		return nil
	}
	typed := func(key string) bool {
		return slices.ContainsFunc(c.sources[1:], func(s *source) bool { return !s.derived && s.defines(key) })
	}
	var assumed []string
	for _, key := range []string{
		"schedule.name", "parallel.zero", "batch.micro", "model.sequence_length", "train.precision",
	} {
		if _, value, _ := setting.Find(*c, key); value != 0 && value != "" && !typed(key) {
			assumed = append(assumed, key+" = "+setting.Quote(value))
		}
	}
	if assumed == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s names a network and no plan; assumed: %s (--set changes them)",
		c.sources[0].label, strings.Join(assumed, ", "))}
}

// Keys lists the dotted keys of a configuration, each with an ending.
func Keys(ending string) (keys []string) {
	for key := range setting.Keys(Config{}) {
		if !setting.IsTable(Config{}, key.Path) {
			keys = append(keys, key.Path+ending)
		}
	}
	return keys
}

// Choices lists the values that a key may have, as far as they are few: those of a catalog or of
// the key's row.
func Choices(key string) (names []string) {
	switch key {
	case "schedule.name":
		return scheduleNames()
	case "model.preset":
		return presets()
	case "machine.device":
		return catalog.Names("devices")
	case "machine.link", "machine.network", "machine.host_link":
		return catalog.Names("links")
	case "machine.file":
		for _, m := range KnownMachines() {
			names = append(names, m.Name)
		}
		return names
	}
	s, value, _ := setting.Find(Config{}, key)
	if _, boolean := value.(bool); boolean {
		return []string{"true", "false"}
	}
	if n, whole := value.(int); whole && n == 0 && s.Range.Min < s.Range.Max && s.Range.Max < fewNumbers {
		for n := s.Range.Min; n <= s.Range.Max; n++ {
			names = append(names, fmt.Sprint(n))
		}
		return names
	}
	return slices.Concat(s.OneOf, s.Parts)
}

// fewNumbers bounds the numbers of a range whose numbers are listed.
const fewNumbers = 10
