package configs

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/setting"
)

// Object returns the experiment as tables and keys of TOML, in the types of JSON, with defaults
// and with the content of the files that it names, except for schedule.file. Written back as
// TOML, it is the same experiment.
func (c *Config) Object() map[string]any {
	kind, err := c.work()
	if err != nil {
		return nil
	}
	skip := func(s setting.Setting) bool { return s.Meaningless(string(kind)) }
	order := func(s setting.Setting) bool { // without the defaults of keys that an order does not need
		sized := s.Key == "stages" || s.Key == "virtual_stages"
		return skip(s) || s.Key != "name" && kind == byCollective || sized && !c.Defined("schedule."+s.Key)
	}
	sections := map[string]any{"schedule": setting.Object(c.Schedule, order)}
	add := func(section string, has bool, table map[string]any) {
		if has || c.Defined(section) {
			sections[section] = table
		}
	}
	add("times", false, setting.Object(c.Times, nil))
	add("memory", c.Memory != costmodel.MemoryOptions{}, setting.Object(c.Memory, skip))
	add("batch", false, setting.Object(c.Batch, nil))
	add("data", false, setting.Object(c.Data, nil))
	add("collective", false, setting.Object(c.Collective, nil))
	add("parallel", kind == byModel, setting.Object(c.Parallel, func(s setting.Setting) bool {
		return skip(s) || s.Key == "overlap_gather" && !c.mayGatherAhead() || c.idleOfStack("parallel.", s.Key)
	}))
	if kind == byModel {
		sections["model"] = c.modelObject()
		idle := func(s setting.Setting) bool { return c.idleOfStack("train.", s.Key) }
		sections["train"] = setting.Object(c.Train, idle)
	}
	if kind == byTimes && c.Defined("train") {
		sections["train"] = map[string]any{"stack": c.Train.Stack}
	}
	if kind != byTimes {
		sections["machine"] = c.machineObject()
	}
	return sections
}

// WriteObject writes the object of an experiment as a configuration, below lines of comment.
func WriteObject(w io.Writer, comment []string, object map[string]any) error {
	var b bytes.Buffer
	for _, line := range comment {
		fmt.Fprintln(&b, strings.TrimRight("# "+strings.Map(printable, line), " "))
	}
	b.WriteString("\n")
	if err := toml.NewEncoder(&b).Encode(wholeNumbers(object)); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// SetIn replaces a setting, KEY=VALUE, of an object that WriteObject writes, and returns its key.
func SetIn(object map[string]any, set string) (key string, err error) {
	key, value, ok := strings.Cut(set, "=")
	key = strings.TrimSpace(key)
	path := strings.Split(key, ".")
	if !ok || len(path) < 2 {
		return "", fmt.Errorf("--set %s: must be KEY=VALUE with a dotted key, as in model.vocab=128256", set)
	}
	var one map[string]any
	if _, err := toml.Decode("v = "+value, &one); err != nil {
		one = map[string]any{"v": value}
	}
	for _, name := range path[:len(path)-1] {
		inner, _ := object[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}
	object[path[len(path)-1]] = one["v"]
	return key, nil
}

// printable replaces a character that a comment may not contain.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}

// wholeNumbers returns a value of JSON with integers for numbers without a fraction. TOML tells them
// apart.
func wholeNumbers(value any) any {
	const exact = 1 << 53 // up to which floating point has every integer
	switch v := value.(type) {
	case map[string]any:
		table := map[string]any{}
		for key, x := range v {
			table[key] = wholeNumbers(x)
		}
		return table
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = wholeNumbers(x)
		}
		return list
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < exact {
			return int64(v)
		}
	}
	return value
}

// mayGatherAhead reports whether parallel.overlap_gather is off, given or has an effect. A stack
// sets it for any schedule and any ZeRO stage; if it were given where it has no effect, it would
// be refused or cause a warning.
func (c *Config) mayGatherAhead() bool {
	if !c.Parallel.OverlapGather || c.Defined("parallel.overlap_gather") {
		return true
	}
	ordered, schedule, err := c.ordered()
	sharded := c.Parallel.Zero == 1 || c.Parallel.Zero == 2
	if err != nil || !sharded {
		return false
	}
	shape := ordered.shape(schedule, max(1, ordered.Schedule.Microbatches))
	return schedule.Placement(shape).Second == nil
}

// idleOfStack reports whether a key of [parallel] or [train] is a stack's, and has no effect with this plan. If it
// were given, it would cause a warning.
func (c *Config) idleOfStack(section, key string) bool {
	p, idle := c.Parallel, false
	switch section + key {
	case "parallel.gather_updated":
		idle = p.Zero == 0 || p.Zero == 3
	case "parallel.reduce_scatter":
		idle = p.Zero == 0
	case "parallel.sum_once":
		idle = p.Zero < 2 || p.Data < 2 && p.Context < 2
	case "parallel.tensor_gather":
		idle = p.Tensor < 2 || !p.Sequence
	case "train.stop_early":
		idle = c.Train.Recompute != "full"
	}
	return idle && !c.Defined(section+key)
}

// modelObject writes [model]: the keys that are given with a preset, or all of a file, and for a
// transformer its kernels and its attention.
func (c *Config) modelObject() map[string]any {
	model, err := c.model()
	if err != nil { // building has reported it
		model = c.Model
	}
	if model.Transformer() {
		model.Kernels, model.Attention = model.UsedKernels().Name, model.UsedAttention()
	}
	given := map[string]bool{}
	for s := range setting.Given(model) {
		given[s.Key] = true
	}
	return setting.Object(model, func(s setting.Setting) bool { return !given[s.Key] })
}

// machineObject writes [machine]. A link that was changed is written out.
func (c *Config) machineObject() map[string]any {
	options, err := c.machineOptions()
	if err != nil {
		options = c.Machine
	}
	options.File = ""
	table := setting.Object(options, isLink)
	m, _ := options.Machine(catalogOf(options)) // building has reported errors
	for key, o := range map[string]link.Options{
		"link": options.Link, "network": options.Network, "host_link": options.HostLink,
	} {
		switch {
		case key == "link" && o.Given():
			o = o.Over(m.Device.Link)
		case key == "host_link" && o.Given():
			o = o.Over(m.Device.HostLink)
		}
		if value := linkValue(key, o); value != nil {
			table[key] = value
		}
	}
	if _, sets := c.laid(); options.Host == (costmodel.HostTimes{}) && slices.ContainsFunc(sets, ofHost) {
		table["host"] = setting.Object(options.Host, nil) // which says nothing against the catalog
	}
	return table
}

// isLink reports whether a setting of [machine] is a link.
func isLink(s setting.Setting) bool {
	return slices.Contains([]string{"link", "network", "host_link"}, s.Key)
}

// ofHost reports whether a setting is one of [machine.host].
func ofHost(set string) bool { return strings.HasPrefix(set, "machine.host.") }

// linkValue writes a link by its name, or with all its keys; nil if there is none.
func linkValue(key string, o link.Options) any {
	if o.Named() {
		return o.Name
	}
	l, err := o.AsGiven(catalogOf(costmodel.MachineOptions{Link: o}).Links, key)
	if err != nil || !o.Given() {
		return nil
	}
	return setting.Object(l, nil)
}
