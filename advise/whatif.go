package advise

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"psim"
	"psim/configs"
	"psim/costmodel"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/plans"
	"psim/results"
	"psim/schedules"
)

// WhatIf predicts what single changes would give, the shortest step first: a link or a
// device's rates twice as fast, other microbatches, another schedule or recomputation, and
// so on. It omits changes that are illegal, that the stack does not support, that train
// differently, or that change neither time nor memory. Changes that would be priced from
// another source, measured or fitted, are listed in unmeasured instead. progress, which
// may be nil, is called before each change.
func WhatIf(
	ctx context.Context, p *psim.Prediction, progress func(number, of int, set []string),
) (list []results.WhatIf, unmeasured [][]string, err error) {
	b := baseline{p}
	list = []results.WhatIf{}
	changes := b.changes()
	for i, sets := range changes {
		if progress != nil {
			progress(i+1, len(changes), sets)
		}
		c, err := b.Config.With(sets...)
		if err != nil {
			continue
		}
		variant, err := psim.Estimate(ctx, c)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil || samplesOf(variant) != samplesOf(p) {
			continue
		}
		if b.pricedByOtherSource(variant) {
			unmeasured = append(unmeasured, sets)
			continue
		}
		r := variant.Result
		if r.StepTime == p.Result.StepTime && r.PeakMemory() == p.Result.PeakMemory() {
			continue
		}
		list = append(list, results.WhatIf{
			Set: sets, StepTime: r.StepTime, PeakMemory: r.PeakMemory(), MemoryVerdict: r.MemoryVerdict,
		})
	}
	slices.SortStableFunc(list, func(a, b results.WhatIf) int {
		return cmp.Or(cmp.Compare(a.StepTime, b.StepTime), slices.Compare(a.Set, b.Set))
	})
	return list, unmeasured, nil
}

// pricedByOtherSource reports whether the layers that only one of two predictions has were
// measured, and those that only the other has were not. The effect of the change would
// then be lost in the difference between measured and fitted times.
func (b baseline) pricedByOtherSource(variant *psim.Prediction) bool {
	w := b.Experiment.Staged
	if w == nil || cmp.Or(w.Training.Precision, "fp32") != "fp32" { // layers are measured in fp32
		return false
	}
	device := b.Experiment.Machine.Device
	own, other := device.MeasuredLayers(w.Network), device.MeasuredLayers(variant.Experiment.Staged.Network)
	differ := func(a, b map[string]bool, measured bool) bool {
		for signature, known := range a {
			if _, both := b[signature]; !both && known == measured {
				return true
			}
		}
		return false
	}
	return differ(own, other, true) && differ(other, own, false) ||
		differ(own, other, false) && differ(other, own, true)
}

// changes lists the changes to try.
func (b baseline) changes() []change {
	list := b.fasterLinks()
	if b.Experiment.Staged == nil {
		list = append(list, b.fasterTimes()...)
	} else {
		list = slices.Concat(list, b.fasterDevices(), b.otherBatches(), b.otherPrograms())
	}
	if !b.Config.Defined("collective") && b.Config.Schedule.File == "" && b.Config.Batch.Shards == nil {
		list = append(list, b.otherSchedules()...)
	}
	return slices.DeleteFunc(list, func(sets change) bool { return !b.supports(sets) })
}

// fasterLinks multiplies the speed of each link of the machine.
func (b baseline) fasterLinks() (list []change) {
	m := b.Experiment.Machine
	faster := func(key string, speedup float64) {
		list = append(list, change{fmt.Sprintf("%s=%g", key, factor(key)*cmp.Or(speedup, 1))})
	}
	if m.Link.Bandwidth > 0 {
		faster("machine.link.speedup", m.Link.Speedup)
	}
	if m.Network.Bandwidth > 0 && m.Nodes(b.Experiment.Graph.Ranks()) > 1 {
		faster("machine.network.speedup", m.Network.Speedup)
	}
	return list
}

// factor returns what a what-if multiplies the value of a key by.
func factor(key string) float64 {
	s, _, _ := setting.Find(configs.Config{}, key)
	return s.Factor
}

// multiple returns a value times the factor of its key, rounded to four digits: users may type it.
func multiple(key string, value float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(factor(key)*value, 'g', 4, 64), 64)
	return rounded
}

// tries lists the settings of a key that a what-if tries.
func tries(key string) (sets change) {
	s, _, _ := setting.Find(configs.Config{}, key)
	for _, value := range s.Try {
		sets = append(sets, key+"="+value)
	}
	return sets
}

// fasterDevices multiplies each rate of the device, and sets the times to launch to zero: that of
// the device, and those of the host together.
func (b baseline) fasterDevices() (list []change) {
	d, c := b.Experiment.Machine.Device, b.Config
	rate := func(key string, now float64) string { return key + "=" + units.FLOPS(multiple(key, now)).String() }
	if now, err := d.Achievable(c.Train.Base()); err == nil {
		set := change{rate("machine.compute.flops", now)}
		if narrow, err := d.Achievable(c.Train.Precision); err == nil && c.Train.Narrow() {
			set = append(set, rate("machine.compute.flops_"+d.RateIn(c.Train.Precision).Name, narrow))
		}
		list = append(list, set)
	}
	const bandwidth = "machine.compute.memory_bandwidth"
	if r := units.Rate(multiple(bandwidth, float64(d.MemoryBandwidth)*d.Efficiency.Memory)); r > 0 {
		list = append(list, change{bandwidth + "=" + r.String()})
	}
	if d.Launch > 0 {
		list = append(list, tries("machine.compute.launch"))
	}
	var host change
	for s := range setting.Given(b.Experiment.Machine.Host) {
		host = append(host, tries("machine.host."+s.Key)...)
	}
	if host != nil {
		list = append(list, host)
	}
	return list
}

// fasterTimes shortens the times of [times]: all of computing together, and each other one.
func (b baseline) fasterTimes() (list []change) {
	var compute change
	shorter := func(key string, took time.Duration) string {
		return key + "=" + units.Duration(factor(key)*float64(took)).String()
	}
	for _, pass := range costmodel.PassTimes(b.Config.Times) {
		if one, same := pass.Table.Same(); same && pass.Table.Set() {
			compute = append(compute, shorter("times."+pass.Key, one))
		}
	}
	if compute != nil {
		list = append(list, compute)
	}
	for s, value := range setting.Given(b.Config.Times) {
		if took, ok := value.(units.Duration); ok && s.Factor > 0 {
			list = append(list, change{shorter("times."+s.Key, time.Duration(took))})
		}
	}
	return list
}

// otherBatches cuts the batch of a replica into twice or half as many microbatches.
func (b baseline) otherBatches() (list []change) {
	share, now := b.Experiment.Staged.Batch(0), int64(b.Experiment.Graph.Shape.Microbatches)
	for _, count := range []int64{2 * now, now / 2} {
		if count == 0 || share%count != 0 {
			continue
		}
		sets := change{fmt.Sprintf("schedule.microbatches=%d", count)}
		if b.Config.Defined("batch.micro") {
			sets = append(sets, fmt.Sprintf("batch.micro=%d", share/count))
		}
		list = append(list, sets)
	}
	return list
}

// otherPrograms changes how the program trains, one key at a time, to the values that what-ifs
// try. It omits keys that have no effect here. WhatIf drops settings that the configuration
// already has.
func (b baseline) otherPrograms() (list []change) {
	c := b.Config
	for key := range setting.Keys(*c) {
		section, _, _ := strings.Cut(key.Path, ".")
		if section == "machine" || !key.Effective(*c) { // see fasterDevices
			continue
		}
		for _, set := range tries(key.Path) {
			list = append(list, change{set})
		}
	}
	if c.Schedule.Partition.Layers != nil {
		list = append(list, change{"schedule.partition=balanced"})
	}
	return append(list, b.hybridSharding()...)
}

// hybridSharding divides what ZeRO 3 divides inside every node only, or over all replicas if it is divided in groups.
func (b baseline) hybridSharding() []change {
	m, p := b.Experiment.Machine, b.Config.Parallel
	inNode := m.DevicesPerNode / m.Devices()
	switch replicas := b.Experiment.Graph.Shape.Replicas; {
	case b.Experiment.Staged.Zero < 3:
	case p.Sharing() > 0:
		return []change{{fmt.Sprintf("parallel.zero_group=%d", replicas)}}
	case inNode > 1 && inNode < replicas && replicas%inNode == 0:
		return []change{{fmt.Sprintf("parallel.zero_group=%d", inNode)}}
	}
	return nil
}

// otherSchedules lists the other schedules of the catalog with the same ranks and
// microbatches. With one stage per rank, schedules for several repeat others.
func (b baseline) otherSchedules() (list []change) {
	c := b.Config
	now := fmt.Sprintf("schedule.microbatches=%d", b.Experiment.Graph.Shape.Microbatches)
	for _, one := range plans.Combine(c) {
		s, err := schedules.Find(one.Schedule) // err: its order is searched for
		own := one.Schedule == c.Schedule.Name && one.PerRank == c.PerRank()
		if one.Err != nil || err != nil || own || s.Virtual && one.PerRank == 1 {
			continue
		}
		if b.Experiment.Staged != nil && !slices.Contains(one.Sets, now) {
			continue
		}
		list = append(list, slices.DeleteFunc(one.Sets, func(set string) bool {
			return set == now || strings.HasPrefix(set, "batch.micro=")
		}))
	}
	return list
}
