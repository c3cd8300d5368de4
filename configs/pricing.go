package configs

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A PriceSetting is a setting by which some classes of work are priced (see
// costmodel.MadeOf and graph.Class).
type PriceSetting struct {
	Key, Value string
	From       string   // given, stack NAME, kernels NAME, device NAME, link NAME, file NAME or default
	Classes    []string // one that ends in _ stands for all that begin so
}

// pricedBy tells the classes of keys; those of a section that are not here price what it
// does. Without classes a key prices no time.
var pricedBy = map[string][]string{
	"machine.compute":                  {"products", unfused},
	"machine.compute.flops":            {"products", "attention"},
	"machine.compute.efficiency":       {"products", "attention"},
	"machine.compute.memory_bandwidth": {"between", "products", "attention", graph.Averaging, graph.Updating},
	"machine.compute.memory":           {},
	"machine.compute.launch":           {graph.Launches, graph.Averaging, graph.Updating},
	"machine.compute.unaligned":        {unaligned, unalignedToo},
	"machine.compute.unaligned_heads":  {unalignedHeads},
	"machine.compute.attention":        {fused},
	"machine.compute.half_head":        {fused},
	"machine.compute.head_multiple":    {fused},
	"machine.host":                     {graph.Launches},
	"machine.link":                     {"tensor", "context", "data_", "expert_", "expert-data_", "tied_"},
	"machine.link.bandwidth":           {"tensor", "context", "data_", "expert_", "expert-data_", "tied_", "pipeline", "collective"},
	"machine.link.speedup":             {"tensor", "context", "data_", "expert_", "expert-data_", "tied_", "pipeline", "collective"},
	"machine.link.latency":             {"tensor", "context", "data_", "expert_", "expert-data_", "tied_", "pipeline", "collective"},
	"machine.link.shared":              {"pipeline", "collective"},
	"times.p2p":                        {"pipeline"},
	"times.host":                       {graph.Launches},
	"times.host_message":               {graph.Launches},
	"times.optimizer":                  {graph.Updating},
	"times.pair":                       {},
}

// pricer lists settings by their classes.
type pricer struct {
	config     *Config
	operations map[string]string // classes by the names of some of their operations
	list       []PriceSetting
}

// Pricing lists the settings that price the tasks of a plan of the experiment.
func (c *Config) Pricing(p *Experiment) []PriceSetting {
	l := pricer{config: c}
	m := p.Machine
	if c.Defined("times") {
		for s, value := range setting.Given(c.Times) {
			classes, ok := pricedBy["times."+s.Key]
			if !ok {
				classes = []string{s.Key}
			}
			l.add("times."+s.Key, value, "default", classes)
		}
	}
	if p.Staged != nil {
		l.device(p)
		l.calibrated(p)
		l.section("machine.host", m.Host, "default")
	}
	if p.Graph.Ranks()*m.Devices() > 1 && m.DevicesPerNode != 1 {
		l.section("machine.link", m.Link, "link "+m.Link.Name)
	}
	if m.Nodes(p.Graph.Ranks()) > 1 {
		l.section("machine.network", m.Network, "link "+m.Network.Name)
	}
	if p.Graph.Shape.Ranks > 1 && p.Graph.Placement.Stages() > 1 {
		l.add("schedule.name", cmp.Or(c.Schedule.Name, p.Graph.Name), "default", []string{graph.Waiting})
		l.add("schedule.microbatches", p.Graph.Shape.Microbatches, "default", []string{graph.Waiting})
	}
	return l.list
}

// calibrated adds what psim calibrate has measured.
func (l *pricer) calibrated(p *Experiment) {
	d := p.Machine.Device
	if len(d.Measured) > 0 {
		l.add("machine.measured", cmp.Or(d.MeasuredModel, units.Plural(len(d.Measured), "layer")), "given", []string{"measured"})
	}
	class := map[string]string{p.Staged.Training.Optimizer: graph.Updating, costmodel.Averaging: graph.Averaging}
	for _, u := range d.Updates {
		if class[u.Name] != "" {
			l.instead(class[u.Name])
			l.add("machine.optimizer", fmt.Sprintf("%s at %s", u.Name, units.FormatRate(float64(u.Rate))), "given", []string{class[u.Name]})
		}
	}
	if c := p.Machine.Cores; c.Number > 0 {
		l.add("machine.cores.number", c.Number, "given", []string{"measured", "products", "attention", "between", graph.Updating})
		l.add("machine.cores.forward", c.Forward, "given", []string{"measured", "products", "attention", "between"})
		l.add("machine.cores.backward", c.Backward, "given", []string{"measured", "products", "attention", "between"})
		l.add("machine.cores.update", c.Update, "given", []string{graph.Updating})
		l.add("machine.cores.average", c.Average, "given", []string{graph.Averaging})
	}
}

// instead takes a class from the settings that priced it until now.
func (l *pricer) instead(class string) {
	for i := range l.list {
		l.list[i].Classes = slices.DeleteFunc(slices.Clone(l.list[i].Classes), func(c string) bool { return c == class })
	}
}

// device adds the rates of the plan's device, in its precision.
func (l *pricer) device(p *Experiment) {
	d, precision := p.Machine.Device, p.Staged.Training.Base()
	if rate, err := d.Achievable(precision); err == nil && l.config.Machine.Compute.FLOPS > 0 {
		l.add("machine.compute.flops", units.FLOPS(rate), "", pricedBy["machine.compute.flops"])
	} else {
		l.add("machine.compute.efficiency", d.RateIn(precision).Share, "device "+d.Name, pricedBy["machine.compute.efficiency"])
	}
	if t := p.Staged.Training; t.Narrow() {
		r := d.RateIn(t.Precision)
		key := "machine.compute.flops_" + r.Name
		if l.config.Defined(key) {
			l.add(key, units.FLOPS(float64(r.Peak)*r.Share), "", []string{"products"})
		} else {
			l.add("machine.compute.efficiency_"+r.Name, r.Share, "device "+d.Name, []string{"products"})
		}
	}
	if p.Machine.Nodes(p.Graph.Ranks()) > 1 { // all wait for the slowest
		l.add("machine.spread", p.Machine.Spread, "default", []string{"products", "attention", "between", graph.Launches})
	}
	d.MemoryBandwidth = units.Rate(float64(d.MemoryBandwidth) * d.Efficiency.Memory)
	l.operations = operations(p.Staged, d)
	l.section("machine.compute", d.In(precision), "device "+d.Name)
}

// section adds the numbers and words of a struct by its toml tags.
func (l *pricer) section(name string, values any, from string) {
	v := reflect.ValueOf(values)
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("toml"), ",")
		known := slices.ContainsFunc(slices.Concat(costmodel.ComputeOptions{}.Settings(), costmodel.HostTimes{}.Settings(), link.Link{}.Settings()),
			func(s setting.Setting) bool { return s.Key == key })
		if k := v.Field(i).Kind(); !known || k == reflect.Map || k == reflect.Struct {
			continue
		}
		section := strings.Replace(name, "network", "link", 1)
		classes, ok := pricedBy[section+"."+key]
		if !ok {
			classes = pricedBy[section]
		}
		l.add(name+"."+key, v.Field(i).Interface(), from, classes)
	}
}

// classes puts classes in the place of the names of operations, and leaves out those that
// the plan has not.
func (l *pricer) classes(names []string) (list []string) {
	for _, name := range names {
		if class, ok := l.operations[name]; ok {
			name = class
		}
		if name != "" {
			list = append(list, name)
		}
	}
	return list
}

// add lists a value that is not zero. from says where it is from unless it is given.
func (l *pricer) add(key string, value any, from string, classes []string) {
	classes = l.classes(classes)
	if reflect.ValueOf(value).IsZero() || len(classes) == 0 {
		return
	}
	c := l.config
	section, _, _ := strings.Cut(key, ".")
	switch {
	case c.Defined(key):
		from = "given"
	case section == "machine" && c.Machine.File != "":
		from = "file " + c.Machine.File
	case c.laidBy(key) != "":
		from = c.laidBy(key)
	}
	switch v := value.(type) {
	case []link.SizeRange:
		value = units.Plural(len(v), "measured range")
	case costmodel.TimeTable:
		value = v.TOML()
	}
	l.list = append(l.list, PriceSetting{key, fmt.Sprint(value), from, classes})
}
