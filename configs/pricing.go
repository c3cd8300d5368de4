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

// A PriceSetting is a setting that prices some classes of work (see costmodel.MadeOf and
// graph.Class).
type PriceSetting struct {
	Key, Value string
	From       string   // given, stack NAME, kernels NAME, device NAME, link NAME, file NAME or default
	Classes    []string // one that ends in _ stands for all that begin with it
}

// pricer lists settings by their classes.
type pricer struct {
	config     *Config
	operations map[string]string // the classes of operations that settings price by a name
	list       []PriceSetting
}

// Pricing lists the settings that price the tasks of a plan of the experiment.
func (c *Config) Pricing(p *Experiment) []PriceSetting {
	l := pricer{config: c}
	m := p.Machine
	if c.Defined("times") {
		for s, value := range setting.Given(c.Times) {
			l.add("times."+s.Key, value, "default")
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
	if p.copiesToHost() {
		from := "link " + m.HostLink.Name
		l.addTo([]string{graph.HostCopies}, PriceSetting{
			Key: "machine.host_link.bandwidth", Value: fmt.Sprint(m.HostLink.Bandwidth), From: from,
		})
	}
	if p.Graph.Shape.Ranks > 1 && p.Graph.Placement.Stages() > 1 {
		l.add("schedule.name", cmp.Or(c.Schedule.Name, p.Graph.Name), "default")
		l.add("schedule.microbatches", p.Graph.Shape.Microbatches, "default")
	}
	return l.list
}

// calibrated adds what psim calibrate has measured.
func (l *pricer) calibrated(p *Experiment) {
	d := p.Machine.Device
	if len(d.Measured) > 0 {
		l.add("machine.measured", cmp.Or(d.MeasuredModel, units.Plural(len(d.Measured), "layer")), "given")
	}
	class := map[string]string{p.Staged.Training.Optimizer: graph.Updating, costmodel.Averaging: graph.Averaging}
	for _, u := range d.Updates {
		if class[u.Name] != "" {
			l.removeClass(class[u.Name])
			value := fmt.Sprintf("%s at %s", u.Name, units.FormatRate(float64(u.Rate)))
			l.addTo([]string{class[u.Name]}, PriceSetting{Key: "machine.optimizer", Value: value, From: "given"})
		}
	}
	if c := p.Machine.Cores; c.Number > 0 {
		for s, value := range setting.Given(c) {
			l.add("machine.cores."+s.Key, value, "given")
		}
	}
}

// removeClass removes a class from the settings that were found to price it so far.
func (l *pricer) removeClass(class string) {
	for i := range l.list {
		l.list[i].Classes = slices.DeleteFunc(slices.Clone(l.list[i].Classes),
			func(c string) bool { return c == class })
	}
}

// device adds the rates of the plan's device, in its precision.
func (l *pricer) device(p *Experiment) {
	d, precision := p.Machine.Device, p.Staged.Training.Base()
	if rate, err := d.Achievable(precision); err == nil && l.config.Machine.Compute.FLOPS > 0 {
		l.add("machine.compute.flops", units.FLOPS(rate), "")
	} else {
		l.add("machine.compute.efficiency", d.RateIn(precision).Share, "device "+d.Name)
	}
	if t := p.Staged.Training; t.Narrow() {
		r := d.RateIn(t.Precision)
		key := "machine.compute.flops_" + r.Name
		if l.config.Defined(key) {
			l.add(key, units.FLOPS(float64(r.Peak)*r.Share), "")
		} else {
			l.add("machine.compute.efficiency_"+r.Name, r.Share, "device "+d.Name)
		}
	}
	if p.Machine.Nodes(p.Graph.Ranks()) > 1 { // every step waits for the slowest node
		l.add("machine.spread", p.Machine.Spread, "default")
	}
	d.MemoryBandwidth = units.Rate(float64(d.MemoryBandwidth) * d.Efficiency.Memory)
	l.operations = costmodel.OperationClasses(p.Staged, d)
	l.section("machine.compute", d.In(precision), "device "+d.Name)
}

// section adds the values of a struct whose toml tags are keys of a section.
func (l *pricer) section(name string, values any, from string) {
	v := reflect.ValueOf(values)
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("toml"), ",")
		known := setting.IsKey(*l.config, name+"."+key)
		if k := v.Field(i).Kind(); !known || k == reflect.Map || k == reflect.Struct {
			continue
		}
		l.add(name+"."+key, v.Field(i).Interface(), from)
	}
}

// classes replaces the names of operations by their classes, without those that the plan does
// not have.
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

// add lists a key with a value that is not zero, under the classes that its setting prices.
// from names the source of the value, unless the configuration gives it.
func (l *pricer) add(key string, value any, from string) {
	s, _, _ := setting.Find(*l.config, key)
	if reflect.ValueOf(value).IsZero() {
		return
	}
	switch v := value.(type) {
	case []link.SizeRange:
		value = units.Plural(len(v), "measured range")
	case costmodel.TimeTable:
		value = v.TOML()
	}
	l.addTo(s.Prices, PriceSetting{Key: key, Value: fmt.Sprint(value), From: from})
}

// addTo lists a setting under some classes, if the plan has any of them.
func (l *pricer) addTo(classes []string, p PriceSetting) {
	if p.Classes = l.classes(classes); len(p.Classes) == 0 {
		return
	}
	c := l.config
	section, _, _ := strings.Cut(p.Key, ".")
	switch {
	case c.Defined(p.Key):
		p.From = "given"
	case section == "machine" && c.Machine.File != "":
		p.From = "file " + c.Machine.File
	case c.laidBy(p.Key) != "":
		p.From = c.laidBy(p.Key)
	}
	l.list = append(l.list, p)
}
