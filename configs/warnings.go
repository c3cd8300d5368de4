package configs

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"psim/configs/parallel"
	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/memory"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/collective"
	"psim/schedules/order"
)

// oneNode warns where a machine file named by --set makes one node of several, because it
// replaces the section that has the number of devices of a node.
func (c *Config) oneNode(m costmodel.Machine) []string {
	if c.Machine.DevicesPerNode == 0 || m.DevicesPerNode > 0 {
		return nil
	}
	return []string{fmt.Sprintf("machine.file = %q replaces all of [machine], "+
		"and so the network between nodes of %d devices: all are in one node now; "+
		"write file = %[1]q into [machine] instead, next to the keys that are to stay",
		c.Machine.File, c.Machine.DevicesPerNode)}
}

// moreWork warns where settings change how many stages a rank holds, and with it the work of a
// step: [times] stay, and are of each stage.
func (c *Config) moreWork() []string {
	file := defaults()
	if _, err := c.sources[0].decode(file); err != nil {
		return nil // Load has reported it
	}
	before, now := file.Schedule.Stages*file.PerRank(), c.Schedule.Stages*c.PerRank()
	_, one := c.Times.Forward.Same()
	given := func(s *source) bool {
		return slices.ContainsFunc(costmodel.PassTimes(c.Times), func(p costmodel.PassTime) bool {
			return s.defines("times." + p.Key)
		})
	}
	same := before == now || before == 0 || file.PerRank() == c.PerRank()
	if !one || same || slices.ContainsFunc(c.sources[1:], given) {
		return nil
	}
	text := fmt.Sprintf("[times] are of each stage: %d stages do %.3g times the work of the %d in %s", now,
		float64(now)/float64(before), before, c.sources[0].label)
	sets, ok := file.DividedTimes(c.PerRank())
	if ok && file.Schedule.Stages == c.Schedule.Stages {
		text += "; for the same work: --set " + strings.Join(sets, " --set ")
	}
	return []string{text}
}

// withoutEffect warns of keys that are given and have no effect because of other keys.
func (c *Config) withoutEffect() (warnings []string) {
	resolved := *c
	if options, err := c.machineOptions(); err == nil {
		resolved.Machine = options
	}
	for key := range setting.Keys(*c) {
		if key.Needs == nil || !c.Defined(key.Path) || !key.Changes(key.Value) {
			continue
		}
		for _, need := range key.Needs {
			if need.Reason != "" && !need.Met(resolved) {
				warnings = append(warnings, fmt.Sprintf("%s = %s: no effect with %s, %s",
					key.Path, setting.Quote(key.Value), need.Values(resolved), need.Reason))
			}
		}
	}
	return warnings
}

// adapterUnsaid warns of keys of an adapter whose kind is not given, even of keys with their defaults.
func (c *Config) adapterUnsaid() []string {
	if c.Train.Adapts() || c.Defined("train.adapter.kind") {
		return nil
	}
	for _, key := range []string{"rank", "targets", "dropout"} {
		if _, value, _ := setting.Find(c.Train.Adapter, key); c.Defined("train.adapter." + key) {
			return []string{fmt.Sprintf("train.adapter.%s = %s: all weights are trained, since train.adapter.kind "+
				"is not given; set it to \"lora\" or \"qlora\"", key, setting.Quote(value))}
		}
	}
	return nil
}

// nothingSplit warns where train.split is given and the schedule splits no backward. A value that the
// stack sets does not count: a result repeats it in its config.
func (c *Config) nothingSplit(o order.Order) []string {
	if c.Train.Split != training.SplitStage || !c.Defined("train.split") || c.laidBy("train.split") != "" || o.Split() {
		return nil
	}
	return []string{fmt.Sprintf("train.split = %q: no effect with schedule.name = %q, which splits no backward",
		c.Train.Split, c.Schedule.Name)}
}

// heldAnyway warns of settings of memory that are given and change nothing in this step: gradients that stay although
// the update frees them, and a result of attention that is not kept. Values of a stack do not count.
func (c *Config) heldAnyway(w *stages.Staged) (warnings []string) {
	given := func(key string) bool { return c.Defined(key) && c.laidBy(key) == "" }
	if c.Memory.FreedGradients && given("memory.freed_gradients") && !memory.FreesGradients(w) {
		warnings = append(warnings, "memory.freed_gradients = true: no effect here, where gradients stay from step to "+
			"step: it acts with one microbatch, and with replicas from parallel.zero = 2 on")
	}
	fused := slices.ContainsFunc(w.Network.Layers, func(l network.Layer) bool {
		return slices.ContainsFunc(l.Ops, func(o network.Op) bool { return o.Class == network.Attention })
	})
	if c.Train.KeepsAttention8() && given("train.keep_8bit") && !fused {
		warnings = append(warnings, fmt.Sprintf("train.keep_8bit = %q: no effect on attention, which is not fused; "+
			"set model.attention = \"flash\"", c.Train.Keep8Bit))
	}
	return warnings
}

// ringOverWindows warns of ring attention over parts of sequences with a sliding window, which
// Transformer Engine refuses (attention/context_parallel.py).
func (c *Config) ringOverWindows() []string {
	if c.Parallel.Context <= 1 || c.Parallel.ContextMethod != parallel.ContextRing {
		return nil
	}
	m, err := c.model()
	if window, _ := m.UsedWindow(); err != nil || window == 0 {
		return nil
	}
	return []string{`parallel.context_method = "ring": Transformer Engine has none for sliding windows; ` +
		`keys and values are taken to go all the way round, set all-gather or ulysses`}
}

// wideKernels warns of kernels whose costs are for narrower numbers than those of the training.
func (c *Config) wideKernels() []string {
	kernels := c.Model.UsedKernels().Name
	if kernels == models.KernelsFused || c.Train.Precision != "" && c.Train.Precision != "fp32" {
		return nil
	}
	return []string{fmt.Sprintf("model.kernels = %q: these kernels are counted for 16-bit numbers, "+
		"and train.precision is fp32", kernels)}
}

// unmeasured warns if a machine has times of measured layers, but not of those of this network,
// whose predictions are then far less certain.
func unmeasured(w *stages.Staged, d costmodel.Device) []string {
	if len(d.Measured) == 0 {
		return nil
	}
	if p := w.Training.Precision; p != "" && p != "fp32" {
		return []string{fmt.Sprintf("the machine's layers were measured in fp32, so that their times are not used "+
			"for %s", p)}
	}
	known := d.MeasuredLayers(w.Network)
	var missing []string
	for _, l := range w.Network.Layers {
		if !known[l.Signature()] {
			missing = append(missing, l.Name)
		}
	}
	if missing == nil {
		return nil
	}
	of := cmp.Or(d.MeasuredModel, "another network")
	return []string{fmt.Sprintf("the machine's measured layers are those of %s: of the %d layers of %s, "+
		"%d were not measured, the first of them %s, and are priced by rates alone; psim calibrate measures them",
		of, len(w.Network.Layers), w.Network.Name, len(missing), missing[0])}
}

// unusedRanges warns of measured collectives that price no group of the experiment. Those of a
// link price groups inside a node, those of a network groups of one rank on each node.
func unusedRanges(m costmodel.Machine, ranks int) []string {
	nodes := m.Nodes(ranks)
	if nodes < 2 {
		return nil
	}
	var warnings []string
	warn := func(key string, l link.Link, most int, why string) {
		for _, t := range l.Tables() {
			if len(t.Ranges) == 0 {
				continue
			}
			fewest := slices.MinFunc(t.Ranges, func(a, b link.SizeRange) int { return a.Ranks - b.Ranks })
			if fewest.Ranks > most {
				warnings = append(warnings, fmt.Sprintf("machine.%s.%s of %d ranks prices nothing here: %s", key,
					t.Key, fewest.Ranks, why))
			}
		}
	}
	warn("link", m.Link, m.DevicesPerNode, fmt.Sprintf("it is for collectives inside a node, which has %s",
		units.Plural(m.DevicesPerNode, "device")))
	warn("network", m.Network, nodes, fmt.Sprintf("it is for one rank on each of %s", units.Plural(nodes, "node")))
	return warnings
}

// onlySpelled warns of keys that have no effect in an experiment that simulates a collective message by
// message: keys of devices, and unless a library has the collective, those of links that price fused
// collectives.
func (c *Config) onlySpelled(row collective.Collective) []string {
	var idle []string
	for key := range setting.Keys(*c) {
		onlyFused := slices.Contains(key.Prices, "collective") && !slices.Contains(key.Prices, "pipeline")
		unused := slices.Contains(key.Idle, string(byCollective)) || row.Algorithm == "" && onlyFused
		if key.Path == "machine.device" {
			unused = c.Machine.Link.Describes() // otherwise the device's link is used
		}
		given := key.Value == nil || !reflect.ValueOf(key.Value).IsZero() // a resolved configuration has zeros
		if unused && given && c.Defined(key.Path) {
			idle = append(idle, key.Path)
		}
	}
	if idle == nil {
		return nil
	}
	return []string{strings.Join(idle, ", ") +
		": no effect here; [collective] simulates the messages of " + row.Name}
}

// usualNode is the number of devices of a node in common clusters.
const usualNode = 8

// surelyTogether returns the number of devices that are certainly in one node: any number of cores,
// the number that their link joins, or for devices described in place the usual number.
func surelyTogether(d costmodel.Device) int {
	switch {
	case strings.HasSuffix(d.Name, "-core"):
		return math.MaxInt
	case d.Name == inline:
		return usualNode
	}
	return max(1, d.Domain)
}

// assumptions warns of important assumptions about keys that are not given, and names the keys.
func (c *Config) assumptions(m costmodel.Machine, ranks int) []string {
	return slices.Concat(c.planAssumptions(), c.modelAssumptions(), c.nodeAssumptions(m, ranks))
}

// modelAssumptions lists the assumptions about the network and its recomputation.
func (c *Config) modelAssumptions() (warnings []string) {
	warn := func(text string, args ...any) { warnings = append(warnings, fmt.Sprintf(text, args...)) }
	if c.NothingSelective() {
		warn(`train.recompute = "selective": there is nothing to repeat, because model.attention = "flash" keeps ` +
			`no scores; set recompute to none or full, or train.selective to operations`)
	}
	model, err := c.model()
	if err != nil {
		return warnings
	}
	if model.Attention == models.AttentionFlash && c.Train.RepeatsModule("core_attn") {
		warn(`train.recompute = %q: with model.attention = "flash", core_attn runs attention again `+
			`to save no more than a number of every row and head`, c.Train.Recompute)
	}
	if c.Model.File != "" {
		if c.Model.SequenceLength == 0 {
			warn("model.sequence_length is not given: samples are taken to be as long as %s allows, %s tokens; "+
				"set model.sequence_length to what is trained",
				c.Model.File, units.FormatCount(int64(model.SequenceLength)))
		}
		if _, unread, err := c.modelFile(); err == nil {
			for _, note := range unread {
				warn("%s: %s", c.Model.File, note)
			}
		}
	}
	if window, length := model.UsedWindow(); model.Attention != models.AttentionFlash && window > 0 {
		warn("%s has a sliding window of %s tokens, which unfused attention does not leave out: it is priced "+
			"over all %s; set model.attention = \"flash\", or model.sequence_length to the window "+
			"to see how much that can be", cmp.Or(c.Model.File, c.Model.Preset, "[model]"),
			units.FormatCount(int64(window)), units.FormatCount(int64(length)))
	}
	return warnings
}

// nodeAssumptions lists the assumptions about the nodes of the machine.
func (c *Config) nodeAssumptions(m costmodel.Machine, ranks int) (warnings []string) {
	warn := func(text string, args ...any) { warnings = append(warnings, fmt.Sprintf(text, args...)) }
	devices := ranks * m.Devices()
	for _, one := range []struct{ what, site, own string }{
		{"device", c.site.Device, m.Device.Name}, {"stack", c.site.Stack, c.Train.Stack},
	} {
		if one.site != "" && one.site != one.own {
			warn("machine.site = %q was fitted to runs with the %s %s, and this has %s: these runs do not count here",
				c.Machine.Site, one.what, one.site, cmp.Or(one.own, "none"))
		}
	}
	if m.DevicesPerNode == 0 && c.Machine.DevicesPerNode == 0 && devices > surelyTogether(m.Device) {
		warn("machine.devices_per_node is not given: all %d devices are taken to be in one node, joined by its link; "+
			"set it, and machine.network, if there are several", devices)
	}
	if joined := m.Device.Domain; joined > 0 && m.DevicesPerNode > joined && devices > joined {
		warn("machine.devices_per_node = %d: the link of %s joins %d devices; "+
			"a node is taken to have one that joins all", m.DevicesPerNode, m.Device.Name, joined)
	}
	if nodes := m.Nodes(ranks); nodes > 1 && m.NICsPerNode == 0 && m.DevicesPerNode >= usualNode {
		warn("machine.nics_per_node is not given: the %d devices of a node are taken to share one network card; "+
			"set it to the cards that a node has", m.DevicesPerNode)
	}
	return warnings
}
