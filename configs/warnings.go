package configs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim/configs/parallel"
	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/internal/setting"
	"psim/internal/units"
)

// joined warns where a machine file named by --set makes one node of several, by
// replacing the section that tells them apart.
func (c *Config) joined(m costmodel.Machine) []string {
	if c.Machine.DevicesPerNode == 0 || m.DevicesPerNode > 0 {
		return nil
	}
	return []string{fmt.Sprintf("machine.file = %q replaces all of [machine], and so the network between nodes of %d devices: all are in one node now; "+
		"write file = %[1]q into [machine] instead, beside the keys that are to stay", c.Machine.File, c.Machine.DevicesPerNode)}
}

// nothingToGather warns of gathers beside the next forward where there are none.
func (c *Config) nothingToGather() []string {
	p := c.Parallel
	if !p.OverlapGather || !c.Defined("parallel.overlap_gather") || p.Zero == 1 || p.Zero == 2 {
		return nil
	}
	return []string{fmt.Sprintf("parallel.overlap_gather = true: no effect with zero = %d, since it is about the gather of parameters after the update of zero = 1 and 2", p.Zero)}
}

// nobodyToAttend warns of a way in which parts of sequences attend to each other where
// sequences are whole, and of a ring where windows make one useless: Transformer Engine
// refuses it (attention/context_parallel.py).
func (c *Config) nobodyToAttend() []string {
	method, ring := c.Parallel.ContextMethod, c.Parallel.ContextMethod == parallel.ContextRing
	if m, err := c.model(); c.Parallel.Context > 1 {
		if window, _ := m.UsedWindow(); err != nil || window == 0 || !ring {
			return nil
		}
		return []string{`parallel.context_method = "ring": Transformer Engine has none for sliding windows; keys and values are taken to go all the way round, set all-gather or ulysses`}
	}
	if method == "" || ring {
		return nil
	}
	return []string{fmt.Sprintf("parallel.context_method = %q: no effect with context = 1, since sequences are whole; set parallel.context above 1", method)}
}

// nobodyToDispatch warns of how tokens come to experts where these are not on other devices.
func (c *Config) nobodyToDispatch() (warnings []string) {
	if c.Parallel.Expert > 1 {
		return nil
	}
	const why = "no effect with parallel.expert = 1, since tokens stay where their experts are"
	if d := c.Parallel.Dispatcher; d == parallel.DispatcherDeepEP {
		warnings = append(warnings, fmt.Sprintf("parallel.dispatcher = %q: %s", d, why))
	}
	if d := c.Parallel.Dispatch; d == parallel.DispatchFP8 {
		warnings = append(warnings, fmt.Sprintf("parallel.dispatch = %q: %s", d, why))
	}
	for _, set := range []struct {
		key   string
		given bool
	}{{"expert_overlap", c.Parallel.ExpertOverlap}, {"delay_weights", c.Parallel.DelayWeights}} {
		if set.given {
			warnings = append(warnings, fmt.Sprintf("parallel.%s = true: %s", set.key, why))
		}
	}
	if i := c.Model.Imbalance; i > 1 {
		warnings = append(warnings, fmt.Sprintf("model.imbalance = %g: %s", i, why))
	}
	return warnings
}

// unlayered warns of a number of layers to repeat where that is not by layers.
func (c *Config) unlayered() []string {
	if c.Train.RecomputeLayers == 0 || c.Train.Recompute == "full" {
		return nil
	}
	return []string{fmt.Sprintf(`train.recompute_layers = %d: no effect with recompute = %q, since it is about the layers that recompute = "full" repeats`, c.Train.RecomputeLayers, c.Train.Recompute)}
}

// nobodyToTell warns of a broadcast that there is nobody to receive.
func (c *Config) nobodyToTell() []string {
	if !c.Parallel.Broadcast || c.Parallel.Data > 1 || c.Parallel.Context > 1 {
		return nil
	}
	return []string{"parallel.broadcast = true: no effect with one replica, since there is no other to send parameters to; set parallel.data above 1"}
}

// wideKernels warns of kernels that are counted for narrower numbers than the
// network is trained in.
func (c *Config) wideKernels() []string {
	kernels := c.Model.UsedKernels()
	if kernels == models.KernelsFused || c.Train.Precision != "" && c.Train.Precision != "fp32" {
		return nil
	}
	return []string{fmt.Sprintf("model.kernels = %q: these kernels are counted for 16-bit numbers, and train.precision is fp32", kernels)}
}

// unmeasured warns where a machine has times of measured layers, but not those
// of this network: what it predicts of them is then far less certain.
func unmeasured(w *stages.Staged, d costmodel.Device) []string {
	if len(d.Measured) == 0 {
		return nil
	}
	if p := w.Training.Precision; p != "" && p != "fp32" {
		return []string{fmt.Sprintf("the machine's layers were measured in fp32, so that their times are not used for %s", p)}
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
	return []string{fmt.Sprintf("the machine's measured layers are those of %s: of the %d layers of %s, %d were not measured, the first of them %s, and are priced by rates alone; psim calibrate measures them",
		of, len(w.Network.Layers), w.Network.Name, len(missing), missing[0])}
}

// unusedRanges warns of measured collectives that no group of the experiment can be
// priced by: a link's are those within a node, a network's of one rank on each.
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
				warnings = append(warnings, fmt.Sprintf("machine.%s.%s of %d ranks prices nothing here: %s", key, t.Key, fewest.Ranks, why))
			}
		}
	}
	warn("link", m.Link, m.DevicesPerNode, fmt.Sprintf("it is for collectives inside a node, which has %s", units.Plural(m.DevicesPerNode, "device")))
	warn("network", m.Network, nodes, fmt.Sprintf("it is for one rank on each of %s", units.Plural(nodes, "node")))
	return warnings
}

// outrated warns of shares of a peak that are given beside what products reach, which goes
// before them.
func (c *Config) outrated(d costmodel.Device) (warnings []string) {
	for _, rate := range []struct {
		suffix      string
		given, used float64
	}{
		{"", c.Machine.Compute.Efficiency, d.Efficiency.BF16},
		{"_fp8", c.Machine.Compute.Efficiency8, d.Efficiency.FP8},
		{"_fp4", c.Machine.Compute.Efficiency4, d.Efficiency.FP4},
	} {
		if key := "machine.compute.efficiency" + rate.suffix; c.Defined(key) && rate.given != rate.used {
			warnings = append(warnings, fmt.Sprintf("%s = %g: no effect beside machine.compute.flops%s, which says what products reach; give one of the two", key, rate.given, rate.suffix))
		}
	}
	return warnings
}

// onlyFused warns of keys of links that price fused collectives, and of keys of devices,
// in an experiment that spells its collective out and holds no network.
func (c *Config) onlyFused() []string {
	used := []string{"file", "devices_per_node", "link", "network", "nics_per_node"}
	if !c.Machine.Link.Describes() {
		used = append(used, "device") // whose link it is
	}
	var given []string
	for s := range setting.Given(c.Machine) { // a resolved configuration has zeros
		if !slices.Contains(used, s.Key) && c.Defined("machine."+s.Key) {
			given = append(given, "machine."+s.Key)
		}
	}
	for _, section := range []string{"machine.link.", "machine.network."} {
		for _, key := range []string{"collective_bandwidth", "collective_call", "algorithm", "all_reduce", "all_gather", "reduce_scatter"} {
			if c.Defined(section + key) {
				given = append(given, section+key)
			}
		}
	}
	if given == nil {
		return nil
	}
	return []string{strings.Join(given, ", ") + ": no effect here; [collective] simulates a ring message by message, with bandwidth and latency alone"}
}

// usualNode counts the devices of a node in common clusters.
const usualNode = 8

// surelyTogether returns how many devices are in one node without doubt: any number of
// cores, as many as their link joins, and of devices described in place, with their link, as
// many as is usual.
func surelyTogether(d costmodel.Device) int {
	switch {
	case strings.HasSuffix(d.Name, "-core"):
		return math.MaxInt
	case d.Name == inline:
		return usualNode
	}
	return max(1, d.Domain)
}

// unasked warns of what psim takes for granted where nothing is said, and where that
// decides much, with the key to say it.
func (c *Config) unasked(m costmodel.Machine, ranks int) []string {
	var warnings []string
	warn := func(text string, args ...any) { warnings = append(warnings, fmt.Sprintf(text, args...)) }
	model, err := c.model()
	if c.NothingSelective() {
		warn(`train.recompute = "selective": there is nothing to repeat, because model.attention = "flash" keeps no scores; set recompute to none or full, or train.selective to operations`)
	}
	if err == nil && model.Attention == models.AttentionFlash && c.Train.RepeatsModule("core_attn") {
		warn(`train.recompute = %q: with model.attention = "flash", core_attn runs attention again to save no more than a number of every row and head`, c.Train.Recompute)
	}
	if err == nil && c.Model.File != "" {
		length := units.FormatCount(int64(model.SequenceLength))
		if c.Model.SequenceLength == 0 {
			warn("model.sequence_length is not given: samples are taken to be as long as %s allows, %s tokens; set model.sequence_length to what is trained", c.Model.File, length)
		}
		if _, unread, err := c.modelFile(); err == nil {
			for _, note := range unread {
				warn("%s: %s", c.Model.File, note)
			}
		}
	}
	if err == nil && model.Attention != models.AttentionFlash {
		if window, length := model.UsedWindow(); window > 0 {
			warn("%s has a sliding window of %s tokens, which unfused attention does not leave out: it is priced over all %s; set model.attention = \"flash\", or model.sequence_length to the window to see how much that can be",
				cmp.Or(c.Model.File, c.Model.Preset, "[model]"), units.FormatCount(int64(window)), units.FormatCount(int64(length)))
		}
	}
	devices := ranks * m.Devices()
	if m.DevicesPerNode == 0 && c.Machine.DevicesPerNode == 0 && devices > surelyTogether(m.Device) {
		warn("machine.devices_per_node is not given: all %d devices are taken to be in one node, joined by its link; set it, and machine.network, if there are several", devices)
	}
	if joined := m.Device.Domain; joined > 0 && m.DevicesPerNode > joined && devices > joined {
		warn("machine.devices_per_node = %d: the link of %s joins %d devices; a node is taken to have one that joins all", m.DevicesPerNode, m.Device.Name, joined)
	}
	if nodes := m.Nodes(ranks); nodes > 1 && m.NICsPerNode == 0 && m.DevicesPerNode >= usualNode {
		warn("machine.nics_per_node is not given: the %d devices of a node are taken to share one network card; set it to the cards that a node has", m.DevicesPerNode)
	}
	return warnings
}
