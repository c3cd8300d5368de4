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

// WhatIf predicts what one change each would give: a link, a device's rates twice as
// fast, other microbatches, another schedule or recomputation, and so on, the shortest
// step first. What cannot be, what the stack does not offer, what is another training, or
// changes neither time nor memory is left out, and so is what would be priced by another
// source: unmeasured lists that. progress, which may be nil, is told which change comes next.
func WhatIf(ctx context.Context, prediction *psim.Prediction, progress func(number, of int, set []string)) (list []results.WhatIf, unmeasured [][]string, err error) {
	p := advised{prediction}
	list = []results.WhatIf{}
	changes := p.whatIfs()
	for i, sets := range changes {
		if progress != nil {
			progress(i+1, len(changes), sets)
		}
		c, err := p.Config.With(sets...)
		if err != nil {
			continue
		}
		estimated, err := psim.Estimate(ctx, c)
		changed := advised{estimated}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil || changed.batch() != p.batch() {
			continue
		}
		if p.otherSource(changed) {
			unmeasured = append(unmeasured, sets)
			continue
		}
		r := changed.Result
		if r.StepTime == p.Result.StepTime && r.PeakMemory() == p.Result.PeakMemory() {
			continue
		}
		list = append(list, results.WhatIf{Set: sets, StepTime: r.StepTime, PeakMemory: r.PeakMemory(), MemoryVerdict: r.MemoryVerdict})
	}
	slices.SortStableFunc(list, func(a, b results.WhatIf) int {
		return cmp.Or(cmp.Compare(a.StepTime, b.StepTime), slices.Compare(a.Set, b.Set))
	})
	return list, unmeasured, nil
}

// otherSource reports whether layers that only one of two predictions has were measured,
// and those that only the other has were not: what the change gives would be lost in the
// difference between what was measured and what is fitted to it.
func (p advised) otherSource(changed advised) bool {
	if w := p.Experiment.Staged; w == nil || cmp.Or(w.Training.Precision, "fp32") != "fp32" { // in which layers are measured
		return false
	}
	device := p.Experiment.Machine.Device
	own, other := device.MeasuredLayers(p.Experiment.Staged.Network), device.MeasuredLayers(changed.Experiment.Staged.Network)
	differ := func(a, b map[string]bool, measured bool) bool {
		for signature, known := range a {
			if _, both := b[signature]; !both && known == measured {
				return true
			}
		}
		return false
	}
	return differ(own, other, true) && differ(other, own, false) || differ(own, other, false) && differ(other, own, true)
}

// whatIfs lists the changes to try.
func (p advised) whatIfs() []change {
	list := p.fasterLinks()
	if p.Experiment.Staged == nil {
		list = append(list, p.fasterTimes()...)
	} else {
		list = slices.Concat(list, p.fasterDevices(), p.otherBatches(), p.otherPrograms())
	}
	if !p.Config.Defined("collective") && p.Config.Schedule.File == "" && p.Config.Batch.Shards == nil {
		list = append(list, p.otherSchedules()...)
	}
	return slices.DeleteFunc(list, func(sets change) bool { return !p.offered(sets) })
}

// fasterLinks doubles the links that the machine has.
func (p advised) fasterLinks() (list []change) {
	m := p.Experiment.Machine
	if m.Link.Bandwidth > 0 {
		list = append(list, change{"machine.link.speedup=" + twice(m.Link.Speedup)})
	}
	if m.Network.Bandwidth > 0 && m.Nodes(p.Experiment.Graph.Ranks()) > 1 {
		list = append(list, change{"machine.network.speedup=" + twice(m.Network.Speedup)})
	}
	return list
}

// twice prints the double of a factor, of which 0 stands for 1.
func twice(factor float64) string { return fmt.Sprintf("%g", 2*cmp.Or(factor, 1)) }

// fasterDevices doubles the device's rates, and takes the time to launch away.
func (p advised) fasterDevices() (list []change) {
	d, c := p.Experiment.Machine.Device, p.Config
	if rate, err := d.Achievable(c.Train.Base()); err == nil {
		set := change{"machine.compute.flops=" + units.FLOPS(fourDigits(2*rate)).String()}
		if narrow, err := d.Achievable(c.Train.Precision); err == nil && c.Train.Narrow() {
			set = append(set, "machine.compute.flops_"+d.RateIn(c.Train.Precision).Name+"="+units.FLOPS(fourDigits(2*narrow)).String())
		}
		list = append(list, set)
	}
	if rate := units.Rate(fourDigits(2 * float64(d.MemoryBandwidth) * d.Efficiency.Memory)); rate > 0 {
		list = append(list, change{"machine.compute.memory_bandwidth=" + rate.String()})
	}
	if d.Launch > 0 {
		list = append(list, change{"machine.compute.launch=0us"})
	}
	if free := freeHost(p.Experiment.Machine.Host); free != nil {
		list = append(list, free)
	}
	return list
}

// freeHost takes away all that a host takes to launch.
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

// fourDigits rounds what people may have to type.
func fourDigits(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return rounded
}

// fasterTimes halves what [times] says of computing, and of messages.
func (p advised) fasterTimes() (list []change) {
	var compute change
	t := p.Config.Times
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
func (p advised) otherBatches() (list []change) {
	share, now := p.Experiment.Staged.Batch(0), int64(p.Experiment.Graph.Shape.Microbatches)
	for _, count := range []int64{2 * now, now / 2} {
		if count == 0 || share%count != 0 {
			continue
		}
		sets := change{fmt.Sprintf("schedule.microbatches=%d", count)}
		if p.Config.Defined("batch.micro") {
			sets = append(sets, fmt.Sprintf("batch.micro=%d", share/count))
		}
		list = append(list, sets)
	}
	return list
}

// otherPrograms changes how the program trains, one setting at a time; what is as it was
// changes nothing.
func (p advised) otherPrograms() (list []change) {
	c := p.Config
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
		settings = append(settings, "parallel.context_method=ring", "parallel.context_method=all-gather", "parallel.context_method=ulysses")
	}
	if c.Parallel.Expert > 1 {
		settings = append(settings, "parallel.expert_overlap=true", "parallel.delay_weights=true", "parallel.dispatch=fp8", "parallel.dispatcher=deepep")
	}
	if p.Experiment.Graph.Shape.Replicas > 1 || c.Parallel.Context > 1 {
		settings = append(settings, "parallel.overlap=true", "parallel.overlap_gather=true", "parallel.zero=0", "parallel.zero=1", "parallel.zero=2", "parallel.zero=3")
	}
	for _, set := range settings {
		list = append(list, change{set})
	}
	return list
}

// otherSchedules lists the other schedules with the same ranks and microbatches, whose
// orders are known. With one stage per rank those that can hold several are others.
func (p advised) otherSchedules() (list []change) {
	c := p.Config
	now := fmt.Sprintf("schedule.microbatches=%d", p.Experiment.Graph.Shape.Microbatches)
	for _, one := range plans.Combine(c) {
		s, err := schedules.Find(one.Schedule) // else its order is searched for
		own := one.Schedule == c.Schedule.Name && one.PerRank == c.PerRank()
		if one.Err != nil || err != nil || own || s.Virtual && one.PerRank == 1 {
			continue
		}
		if p.Experiment.Staged != nil && !slices.Contains(one.Sets, now) {
			continue
		}
		list = append(list, slices.DeleteFunc(one.Sets, func(set string) bool {
			return set == now || strings.HasPrefix(set, "batch.micro=")
		}))
	}
	return list
}
