package advise

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psim"
	"psim/costmodel"
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

// fasterLinks doubles the speed of each link of the machine.
func (b baseline) fasterLinks() (list []change) {
	m := b.Experiment.Machine
	if m.Link.Bandwidth > 0 {
		list = append(list, change{"machine.link.speedup=" + doubled(m.Link.Speedup)})
	}
	if m.Network.Bandwidth > 0 && m.Nodes(b.Experiment.Graph.Ranks()) > 1 {
		list = append(list, change{"machine.network.speedup=" + doubled(m.Network.Speedup)})
	}
	return list
}

// doubled prints twice a factor; 0 stands for 1.
func doubled(factor float64) string { return fmt.Sprintf("%g", 2*cmp.Or(factor, 1)) }

// fasterDevices doubles each rate of the device, and sets the time to launch to zero.
func (b baseline) fasterDevices() (list []change) {
	d, c := b.Experiment.Machine.Device, b.Config
	if rate, err := d.Achievable(c.Train.Base()); err == nil {
		set := change{"machine.compute.flops=" + units.FLOPS(roundToFourDigits(2*rate)).String()}
		if narrow, err := d.Achievable(c.Train.Precision); err == nil && c.Train.Narrow() {
			key := "machine.compute.flops_" + d.RateIn(c.Train.Precision).Name
			set = append(set, key+"="+units.FLOPS(roundToFourDigits(2*narrow)).String())
		}
		list = append(list, set)
	}
	if rate := units.Rate(roundToFourDigits(2 * float64(d.MemoryBandwidth) * d.Efficiency.Memory)); rate > 0 {
		list = append(list, change{"machine.compute.memory_bandwidth=" + rate.String()})
	}
	if d.Launch > 0 {
		list = append(list, change{"machine.compute.launch=0us"})
	}
	if free := freeHost(b.Experiment.Machine.Host); free != nil {
		list = append(list, free)
	}
	return list
}

// freeHost sets all times that a host takes to launch to zero.
func freeHost(h costmodel.HostTimes) (sets change) {
	for _, takes := range []struct {
		key  string
		time units.Duration
	}{{"operation", h.Operation}, {"task", h.Task}, {"layer", h.Layer}} {
		if takes.time > 0 {
			sets = append(sets, "machine.host."+takes.key+"=0us")
		}
	}
	return sets
}

// roundToFourDigits rounds a value that users may type.
func roundToFourDigits(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return rounded
}

// fasterTimes halves the times of [times]: all of computing together, and each other one.
func (b baseline) fasterTimes() (list []change) {
	var compute change
	t := b.Config.Times
	for _, pass := range costmodel.PassTimes(t) {
		if one, same := pass.Table.Same(); same && pass.Table.Set() {
			compute = append(compute, "times."+pass.Key+"="+units.Duration(one/2).String())
		}
	}
	if compute != nil {
		list = append(list, compute)
	}
	for _, rest := range []struct {
		key  string
		took units.Duration
	}{{"p2p", t.PointToPoint}, {"host", t.Host}, {"optimizer", t.Optimizer}} {
		if rest.took > 0 {
			list = append(list, change{"times." + rest.key + "=" + (rest.took / 2).String()})
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

// otherPrograms changes how the program trains, one setting at a time. WhatIf drops
// settings that the configuration already has.
func (b baseline) otherPrograms() (list []change) {
	c := b.Config
	settings := []string{"train.recompute=none", "train.recompute=selective", "train.recompute=full"}
	if c.Model.Transformer() {
		settings = append(settings, "model.attention=flash", "model.kernels=fused")
	}
	if c.Schedule.Partition.Layers != nil {
		settings = append(settings, "schedule.partition=balanced")
	}
	if c.Parallel.Tensor > 1 {
		settings = append(settings, "parallel.sequence=false", "parallel.sequence=true", "parallel.tensor_overlap=true")
	}
	if c.Parallel.Context > 1 {
		settings = append(settings, "parallel.context_method=ring", "parallel.context_method=all-gather",
			"parallel.context_method=ulysses")
	}
	if c.Parallel.Expert > 1 {
		settings = append(settings, "parallel.expert_overlap=true", "parallel.delay_weights=true",
			"parallel.dispatch=fp8", "parallel.dispatcher=deepep")
	}
	if b.Experiment.Graph.Shape.Replicas > 1 || c.Parallel.Context > 1 {
		settings = append(settings, "parallel.overlap=true", "parallel.overlap_gather=true",
			"parallel.zero=0", "parallel.zero=1", "parallel.zero=2", "parallel.zero=3")
	}
	for _, set := range settings {
		list = append(list, change{set})
	}
	return list
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
