package configs

import (
	"cmp"
	"slices"
	"time"

	"psim/costmodel"
	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/internal/units"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// DividedTimes returns settings of [times] and [memory] with which a rank does the same work in
// another number of stages: their times are of a stage. It returns false if the stages differ, or
// the result is not a whole number of nanoseconds or bytes.
func (c *Config) DividedTimes(perRank int) (sets []string, ok bool) {
	own := c.PerRank()
	if c.Defined("model") || perRank == own {
		return nil, true
	}
	for _, t := range costmodel.PassTimes(c.Times) {
		if !t.Table.Set() {
			continue
		}
		one, same := t.Table.Same()
		all := one * time.Duration(own)
		if !same || all%time.Duration(perRank) != 0 {
			return nil, false
		}
		sets = append(sets, "times."+t.Key+"="+units.Duration(all/time.Duration(perRank)).String())
	}
	for _, b := range []struct {
		key   string
		bytes units.Bytes
	}{
		{"activation", c.Memory.Activation}, {"freed_by_input_gradient", c.Memory.FreedByInputGradient},
	} {
		all := b.bytes * units.Bytes(own)
		if all%units.Bytes(perRank) != 0 {
			return nil, false
		}
		if b.bytes > 0 {
			sets = append(sets, "memory."+b.key+"="+(all/units.Bytes(perRank)).String())
		}
	}
	return sets, true
}

// A Division is an experiment with a [model] that has been cut and placed: an Experiment without
// its graph.
type Division struct {
	Workload *stages.Staged
	Machine  costmodel.Machine
	Schedule schedules.Schedule
	Shape    graph.Shape
	config   *Config
}

// A Cut is a network that has been cut and placed, before its stages are planned. Divide makes a
// Division of it.
type Cut struct {
	Workload *stages.Workload
	Machine  costmodel.Machine
	Schedule schedules.Schedule
	Shape    graph.Shape
	config   *Config
}

// Cut cuts and places the network of the experiment after a change, which may affect [schedule],
// [parallel], [batch] and train.recompute.
func (c *Config) Cut(change func(*Config)) (*Cut, error) {
	v := *c
	v.dropped = append(slices.Clip(c.dropped), "schedule.partition", "schedule.placement", "schedule.stages")
	change(&v)
	schedule, err := findSchedule(v.Schedule.Name)
	if err != nil {
		return nil, err
	}
	w, machine, err := v.workload(schedule)
	if err != nil {
		return nil, err
	}
	return &Cut{w, machine, schedule, v.shape(schedule, len(w.Samples)), &v}, nil
}

// Divide plans the stages of a cut.
func (k *Cut) Divide() *Division {
	return &Division{k.config.shared.staged(k.Workload), k.Machine, k.Schedule, k.Shape, k.config}
}

// Sketch divides a cut without lists of tensors, for the memory of passes and for persistent memory. It returns nil
// if these need such lists.
func (k *Cut) Sketch() *Division {
	known := k.config.shared.trained(k.Workload)
	w := *k.Workload
	w.Network = known.network
	if sketch, ok := w.SketchPasses(known.counts); ok {
		return &Division{sketch, k.Machine, k.Schedule, k.Shape, k.config}
	}
	return nil
}

// LayerTimes prices the layers of the network for the first microbatch. The cut does not matter.
func (k *Cut) LayerTimes(ranks int) ([]costmodel.LayerTime, error) {
	w := *k.Workload
	w.Network = k.config.shared.trained(k.Workload).network
	return costmodel.LayerTimes(k.Machine, w, ranks)
}

// Lasting returns the memory that every rank of a replica keeps from step to step, or nil if
// parameters are sharded by tensors.
func (k *Cut) Lasting() []int64 {
	w := k.Workload
	if w.Zero >= 3 && w.PerTensor {
		return nil
	}
	sketch := w.Sketch(k.config.shared.trained(w).counts)
	return memory.Lasting(sketch, k.Shape.Ranks)
}

// Least returns a lower bound of the memory that the fullest rank keeps from step to step, given
// the ranks that share the network, the replicas and the ZeRO stage. It is 0 if parameters are
// sharded.
func (k *Cut) Least(ranks, replicas, zero int) int64 {
	if zero >= 3 {
		return 0
	}
	w := *k.Workload
	w.Replicas, w.Zero, w.Process = replicas, zero, stages.ProcessMemory{
		GradientCopies: w.Process.GradientCopies, FreedGradients: w.Process.FreedGradients,
	}
	w.Samples = w.Samples[:1] // with which gradients may be freed
	w.Layers, w.Placement = []int{len(w.Network.Layers)}, graph.InOrder(1)
	return memory.Lasting(w.Sketch(k.config.shared.trained(&w).counts), 1)[0] / int64(ranks)
}

// Scheduled returns the division with another schedule, after a change that affects neither the
// stages nor their ranks.
func (d *Division) Scheduled(by schedules.Schedule, change func(*Config)) *Division {
	v := *d.config
	change(&v)
	return &Division{d.Workload, d.Machine, by, v.shape(by, len(d.Workload.Samples)), &v}
}

// Order returns the order of another schedule for the cut, after a change that affects neither the stages nor their
// ranks. The pipeline has only what does not depend on the division of the stages.
func (k *Cut) Order(by schedules.Schedule, change func(*Config)) (wiring.Pipeline, error) {
	v := *k.config
	change(&v)
	return v.actions(by, v.shape(by, len(k.Workload.Samples)), k.Workload)
}

// actions orders the actions of a schedule, in an order that does not depend on costs.
func (c *Config) actions(by schedules.Schedule, shape graph.Shape, w *stages.Workload) (wiring.Pipeline, error) {
	p, err := c.shared.pipeline(by, shape, w.Pipeline())
	if err == nil {
		p, err = c.exchanging(by, p)
	}
	if err == nil {
		err = cmp.Or(c.checkTwoPass(p.Order.Split()), c.checkCopied(p))
		p.Order = ordered(w, p.Order)
	}
	return p, err
}

// Pipeline prepares the schedule for wiring, in an order that does not depend on costs.
func (d *Division) Pipeline() (wiring.Pipeline, error) {
	p, err := d.config.actions(d.Schedule, d.Shape, &d.Workload.Workload)
	if err != nil {
		return p, err
	}
	d.Workload.Fill(&p)
	p.Optimizer, p.Synchronous = true, d.config.Schedule.Synchronous
	return p, nil
}
