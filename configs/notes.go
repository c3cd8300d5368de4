package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/internal/setting"
	"psim/internal/units"
)

// Inputs lists, a line each, the files and settings that the experiment reads, and the defaults
// that it assumes for the training.
func (c *Config) Inputs() []string {
	from := "file "
	switch {
	case c.folder == "" && !c.HasPlan():
		from = "preset "
	case c.folder == "":
		from = "example "
	}
	lines := []string{"reads    " + from + c.sources[0].label}
	for _, s := range c.sources[1:] {
		lines = append(lines, "reads    setting "+s.label)
	}
	files := [][2]string{
		{"order", c.Schedule.File}, {"network", c.Model.File}, {"lengths", c.Data.Lengths.File},
		{"machine", c.Machine.File}, {"site", c.Machine.Site},
	}
	for _, file := range files {
		if file[1] != "" {
			lines = append(lines, "reads    "+file[0]+" "+file[1])
		}
	}
	times := c.Defined("times")
	for _, section := range []struct {
		name    string
		options any
		noted   bool
	}{
		{"times", c.Times, times}, {"train", c.Train, !times && c.Defined("model")},
		{"parallel", c.Parallel, !times && c.Parallel.Data > 1},
	} {
		for s := range setting.Each(section.options) {
			if s.Assumed && section.noted && s.Effective(*c) {
				lines = append(lines, c.assumed(section.name+"."+s.Key)...)
			}
		}
	}
	return lines
}

// assumed names the default of a key that is not given, or says what applies without it.
func (c *Config) assumed(key string) []string {
	s, _, _ := setting.Find(*c, key)
	switch {
	case c.Defined(key) || c.laidBy(key) != "":
		return nil
	case s.Default != nil:
		return []string{fmt.Sprintf("assumes  %s = %s", key, setting.Quote(s.Default))}
	}
	return []string{fmt.Sprintf("assumes  no %s: %s", key, s.Unset)}
}

// Decisions lists what was decided for a plan of the experiment: the network, how it is cut, its
// batch and its gradients.
func (c *Config) Decisions(p *Experiment) (lines []string) {
	if p.Staged != nil {
		lines = append(lines, c.networkNotes(p)...)
	}
	if placement := p.Graph.Placement; placement.Stages() > p.Graph.Shape.Ranks && p.Graph.Shape.Ranks > 1 {
		lines = append(lines, "decides  stages on ranks "+abbreviated(placement.First))
	}
	if p.Search != nil {
		lines = append(lines, "decides  an order that was searched for; no order has a span below "+
			units.FormatDuration(p.Search.LowerBound))
	}
	return lines
}

// networkNotes lists what was decided about the network and its batch.
func (c *Config) networkNotes(p *Experiment) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, "decides  "+fmt.Sprintf(format, args...)) }
	w, n := p.Staged, p.Network
	text := fmt.Sprintf("network %s: %s, %s parameters", n.Name, units.Plural(len(n.Layers), "layer"),
		units.FormatCount(n.Parameters()))
	if active := n.ActiveParameters(); active < n.Parameters() {
		text += fmt.Sprintf(", %s of them for a token", units.FormatCount(active))
	}
	if trained := n.Trained(); trained < n.Parameters() {
		text += fmt.Sprintf(", %s of them trained", units.FormatCount(trained))
	}
	if n.TokensPerSample > 1 {
		text += fmt.Sprintf(", %s tokens per sample", units.FormatCount(int64(n.TokensPerSample)))
	}
	say("%s", text)
	c.batchNotes(say)
	if c.Train.Adapts() {
		say("adapters of rank %d on %s", c.Train.Adapter.Rank, strings.Join(c.Train.Targeted(n), ", "))
	}
	switch {
	case w.Zero >= 3 && len(w.Stages) == 1:
		say("one unit of all layers, gathered for the forward and for the backward")
	case w.Zero >= 3:
		say("a unit of every layer, gathered where it is used")
	case len(w.Stages) > 1:
		by := "balanced by time" // the default
		if c.Defined("schedule.partition") || c.uneven() {
			by = "as schedule.partition says"
		}
		say("%s layers on stages 0 to %d, %s", abbreviated(w.Layers), len(w.Layers)-1, by)
	}
	sizes := spread(w.Samples)
	if w.Shards != nil {
		sizes = spread(w.Shards)
	}
	say("%s of %s, %s", units.Plural(len(w.Samples), "microbatch"), sizes, units.Plural(max(1, w.Replicas), "replica"))
	return append(lines, bucketNotes(p)...)
}

// bucketNotes lists the buckets in which gradients are summed.
func bucketNotes(p *Experiment) []string {
	var counts []int
	var largest int64
	for _, st := range p.Staged.Stages {
		counts = append(counts, len(st.Buckets))
		for _, b := range st.Buckets {
			largest = max(largest, b.Bytes)
		}
	}
	if largest == 0 {
		return nil
	}
	return []string{fmt.Sprintf("decides  %s buckets of gradients by stage, the largest of %s", abbreviated(counts),
		units.FormatBytes(largest))}
}

// MachineNotes lists what the plan reads, assumes and uses of a machine.
func (c *Config) MachineNotes(p *Experiment) []string {
	if c.Defined("times") {
		return nil // there is no machine
	}
	m, lines := p.Machine, []string(nil)
	for _, named := range [][2]string{{"device", m.Device.Name}, {"link", m.Link.Name}, {"network", m.Network.Name}} {
		if kind, name := named[0], named[1]; name != "" && name != inline {
			lines = append(lines, "reads    "+kind+" "+name+" of the catalog")
		}
	}
	if p.Network.TokensPerSample > 1 {
		if from, sets := c.laid(); sets != nil {
			lines = append(lines, "reads    "+from+" of the catalog: "+strings.Join(sets, ", "))
		}
		lines = append(lines, "decides  kernels "+c.Model.UsedKernels().Name+"; "+c.attentionNote())
	}
	if m.Host == (costmodel.HostTimes{}) {
		lines = append(lines, "assumes  no machine.host: launching takes no thread of the host")
	}
	if p.Graph.Ranks()*m.Devices() > 1 {
		lines = append(lines, c.assumed("machine.devices_per_node")...)
	}
	if m.Nodes(p.Graph.Ranks()) > 1 {
		lines = append(lines, c.assumed("machine.nics_per_node")...)
	}
	if p.Staged != nil {
		lines = append(lines, c.assumed("machine.memory_margin")...)
		lines = append(lines, deviceNotes(m.Device, cmp.Or(p.Staged.Training.Precision, "fp32"))...)
		if held := c.Memory.Process(c.groups()); held.Context+held.Buffers > 0 {
			lines = append(lines, fmt.Sprintf("decides  a process holds %s of context and %s of buffers for %s "+
				"in addition to its tensors, and %g %% of those that come and go",
				units.FormatBytes(held.Context), units.FormatBytes(held.Buffers),
				units.Plural(c.groups(), "group"), 100*held.Allocator))
		}
		if m.MemoryPerNode > 0 {
			lines = append(lines, fmt.Sprintf("decides  the devices of a node share %s of memory",
				units.FormatBytes(int64(m.MemoryPerNode))))
		}
	}
	return append(lines, linkNotes(p)...)
}

// attentionNote describes how attention is computed.
func (c *Config) attentionNote() string {
	if m, err := c.model(); err == nil && m.Attention == models.AttentionFlash {
		return "attention flash: one kernel, which leaves out what the mask covers and keeps no scores"
	}
	return "attention unfused: the scores of all pairs of tokens are written and read"
}

// deviceNotes lists the rate and the memory of a device.
func deviceNotes(d costmodel.Device, precision string) (lines []string) {
	if rate, err := d.Achievable(precision); err == nil {
		lines = append(lines, fmt.Sprintf("decides  large products reach %s in %s", units.FormatFLOPS(rate), precision))
	}
	switch {
	case d.Memory == 0:
		return append(lines, "decides  no limit of memory is known")
	case d.Margin > 0:
		return append(lines, fmt.Sprintf("decides  %s of %s of memory may be used", units.FormatBytes(d.Usable()),
			units.FormatBytes(int64(d.Memory))))
	}
	return append(lines, fmt.Sprintf("decides  all %s of memory may be used", units.FormatBytes(int64(d.Memory))))
}

// linkNotes lists the links that messages and groups use.
func linkNotes(p *Experiment) (lines []string) {
	m, seen := p.Machine, []string{}
	say := func(what string, links []string) {
		if line := "decides  " + what + ": " + strings.Join(links, " and "); !slices.Contains(seen, line) {
			seen = append(seen, line)
		}
	}
	if nodes := m.Nodes(p.Graph.Ranks()); nodes > 1 {
		devices, cards := units.Plural(m.DevicesPerNode, "device"), units.Plural(max(1, m.NICsPerNode), "network card")
		network := named(m.Network.Name, "machine.network")
		say(fmt.Sprintf("%d nodes of %s, each with %s", nodes, devices, cards), []string{network})
	}
	if m.Tensor > 1 {
		say(fmt.Sprintf("tensor-parallel groups of %d devices", m.Tensor), p.within(1, m.Tensor))
	}
	if m.Context > 1 {
		method := cmp.Or(p.Staged.Network.Group.Method, group.ContextRing)
		say(fmt.Sprintf("sequences in %d parts, which attend to each other by %s", m.Context, method),
			p.within(max(1, m.Tensor), m.Context))
	}
	var messages []string
	for i := range p.Graph.Classes {
		if t := &p.Graph.Classes[i]; t.Kind.Message() {
			messages = p.between(messages, t.Rank, t.Peer)
		}
	}
	if messages != nil {
		slices.Sort(messages)
		say("messages between ranks", messages)
	}
	for k, ranks := range p.Graph.Groups {
		width, over, links := p.Graph.Width(int32(k)), units.Plural(len(ranks), "rank"), []string(nil)
		if width > 1 {
			over, links = units.Plural(len(ranks)*width, "device"), p.within(m.Devices()/width, width)
		}
		for i := range ranks {
			links = p.between(links, ranks[i], ranks[(i+1)%len(ranks)])
		}
		say("collectives over "+over, links)
	}
	return seen
}

// within lists the links among a number of devices of a rank that are stride devices apart.
func (p *Experiment) within(stride, devices int) (links []string) {
	m := p.Machine
	if m.DevicesPerNode == 0 || stride < m.DevicesPerNode {
		links = append(links, named(m.Link.Name, "machine.link"))
	}
	if m.DevicesPerNode > 0 && stride*devices > m.DevicesPerNode {
		links = append(links, named(m.Network.Name, "machine.network"))
	}
	return links
}

// between adds the link between two ranks, unless the list has its name already.
func (p *Experiment) between(links []string, a, b int32) []string {
	path, key := p.Machine.Between(a, b), "machine.link"
	if path.Network {
		key = "machine.network"
	}
	if name := named(path.Name, key); a != b && !slices.Contains(links, name) {
		links = append(links, name)
	}
	return links
}

// named returns the name of a link, or the key that describes it.
func named(name, key string) string {
	if name == "" || name == inline {
		return "[" + key + "]"
	}
	return name
}

// inline names a device or link that the configuration itself describes.
const inline = "inline"

// spread prints the range of the sizes of microbatches.
func spread(samples []int64) string {
	least, most := slices.Min(samples), slices.Max(samples)
	if least == most {
		return units.Plural(int(least), "sample")
	}
	return fmt.Sprintf("%d to %d samples", least, most)
}

// abbreviated prints a list, or the two ends of a long one.
func abbreviated[T int | int32](list []T) string {
	const most, ends = 16, 4
	var words []string
	for i, x := range list {
		switch {
		case len(list) <= most || i < ends || i >= len(list)-ends:
			words = append(words, fmt.Sprint(x))
		case i == ends:
			words = append(words, "…")
		}
	}
	return strings.Join(words, ", ")
}
