package configs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"psim/costmodel"
	"psim/costmodel/arch"
	"psim/costmodel/stages"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/partition"
	"psim/schedules/search"
)

// buildModel prices a network on a machine.
func (c *Config) buildModel(ctx context.Context, schedule schedules.Schedule, reserve []int64) (*Plan, error) {
	w, machine, err := c.workload(schedule)
	if err != nil {
		return nil, err
	}
	shape := c.shape(schedule, len(w.Samples))
	pipeline, found, err := c.pipeline(schedule, shape, w.Placement.First, func() (*search.Result, error) {
		return c.searchModel(ctx, shape, w, machine, reserve)
	})
	if err != nil {
		return nil, err
	}
	planned := w.Plan()
	pipeline.Samples, pipeline.Boundaries, pipeline.Sync, pipeline.Tied = w.Samples, planned.Boundaries(), planned.Sync(), planned.TiedSums()
	pipeline.Optimizer, pipeline.Synchronous = true, c.Schedule.Synchronous
	pipeline.WholeLast = c.Schedule.WholeLast
	g, err := pipeline.Graph()
	if err != nil {
		return nil, c.problem("schedule", err)
	}
	costs, err := costmodel.StepCosts(machine, planned, g)
	if err != nil {
		return nil, c.problem("machine", err)
	}
	plan := &Plan{Graph: g, Costs: costs, Workload: planned, Machine: machine, Samples: sum(w.Samples) * int64(c.Parallel.Data), Search: found}
	plan.Warnings = slices.Concat(c.changes, c.joined(machine), c.wideKernels(), unmeasured(planned, machine.Device), unusedRanges(machine, g.Ranks()))
	if tokens := w.Network.TokensPerSample; tokens > 1 {
		plan.Tokens = plan.Samples * int64(tokens)
	}
	if machine.Device.Memory > 0 {
		plan.Capacity = slices.Repeat([]int64{machine.Device.Usable()}, g.Ranks())
	}
	return plan, nil
}

// wideKernels warns of kernels that are counted for narrower numbers than the
// network is trained in.
func (c *Config) wideKernels() []string {
	if !c.Model.MegatronKernels() || c.Train.Precision != "" && c.Train.Precision != "fp32" {
		return nil
	}
	return []string{`model.kernels = "megatron": these kernels are counted for 16-bit numbers, and train.precision is fp32`}
}

// workload is the network, cut into stages and microbatches, and the machine
// that it is trained on.
func (c *Config) workload(schedule schedules.Schedule) (*stages.Workload, costmodel.Machine, error) {
	var machine costmodel.Machine
	network, err := c.network()
	if err != nil {
		return nil, machine, c.problem("model", err)
	}
	samples, err := c.Batch.Samples(c.Parallel.Data, c.Schedule.Microbatches)
	if err != nil {
		return nil, machine, c.problem("batch", err)
	}
	if machine, err = c.machine(true); err != nil {
		return nil, machine, c.problem("machine", err)
	}
	machine.Tensor = c.Parallel.Tensor
	if _, err := machine.Compute(c.Train); err != nil {
		return nil, machine, c.problem("train", err)
	}
	w := &stages.Workload{
		Network: network, Training: c.Train, Samples: samples, Replicas: c.Parallel.Data, Zero: c.Parallel.Zero,
		Bucket: int64(c.Parallel.Bucket), Overlap: c.Parallel.Overlap, NoReduceScatter: c.Parallel.Collectives == "gloo",
		WholeLast: c.Schedule.WholeLast,
	}
	if err := w.Validate(); err != nil {
		return nil, machine, c.problem("batch", err)
	}
	if w.WholeLast && (c.Parallel.Data > 1 || c.Parallel.Tensor > 1) {
		return nil, machine, c.problem("schedule", errors.New("whole_last = true: is modelled for parallel.data = 1 and parallel.tensor = 1 only"))
	}
	if c.Parallel.Zero == 3 {
		err = c.layerByLayer(w)
	} else {
		err = c.partition(w, machine, schedule)
	}
	if err != nil {
		return nil, machine, c.problem("schedule", err)
	}
	return w, machine, nil
}

// layerByLayer makes a stage of every layer, all on one rank: the units of
// ZeRO 3.
func (c *Config) layerByLayer(w *stages.Workload) error {
	for _, key := range []string{"partition", "placement"} {
		if c.Defined("schedule." + key) {
			return fmt.Errorf("%s: parallel.zero = 3 makes a unit of every layer by itself, on every rank; remove %s", key, key)
		}
	}
	for range w.Network.Layers {
		w.Layers = append(w.Layers, 1)
	}
	w.Placement.First = make([]int32, len(w.Layers))
	return nil
}

// partition cuts the network into stages and places them.
func (c *Config) partition(w *stages.Workload, m costmodel.Machine, schedule schedules.Schedule) error {
	ranks, n := c.Schedule.Stages, len(w.Network.Layers)
	if ranks > n {
		return fmt.Errorf("stages = %d: %s has %d layers, and every stage needs at least one (%s)", ranks, w.Network.Name, n, layerNames(w.Network))
	}
	shape := c.shape(schedule, len(w.Samples))
	if err := schedule.Check(shape); err != nil {
		return err
	}
	own := schedule.Placement(shape)
	if own.Second != nil && c.Parallel.Zero > 0 {
		return fmt.Errorf("name = %q: holds every stage twice, which is not modelled with parallel.zero = %d; set it to 0", schedule.Name, c.Parallel.Zero)
	}
	stageRank, err := c.placement(ranks)
	if err != nil {
		return err
	}
	if stageRank == nil {
		stageRank = own.First
	}
	if len(stageRank) > n {
		return fmt.Errorf("virtual_stages = %d: %d stages in all, but %s has %d layers, and every stage needs at least one (%s)", c.Schedule.VirtualStages, len(stageRank), w.Network.Name, n, layerNames(w.Network))
	}
	by := c.Schedule.Partition
	switch {
	case by.Layers != nil:
		w.Layers, err = partition.Explicit(by.Layers, n, len(stageRank))
	case by.Rule == "course":
		if c.Schedule.Placement != nil {
			return errors.New(`placement: partition = "course" places the stages itself; remove one of the two`)
		}
		w.Layers, stageRank, err = coursePartition(w.Network, ranks)
	case by.Rule == "equal":
		w.Layers, err = partition.Equal(n, len(stageRank))
	default:
		var costs []float64
		if costs, err = layerCosts(*w, m); err != nil {
			return err
		}
		w.Layers, err = partition.Balanced(costs, len(stageRank))
	}
	w.Placement = own
	w.Placement.First = stageRank
	if err != nil {
		key := "stages"
		if c.Defined("schedule.partition") {
			key = "partition"
		}
		return fmt.Errorf("%s: %w (the %d layers of %s are %s)", key, err, n, w.Network.Name, layerNames(w.Network))
	}
	return nil
}

// coursePartition is the split that the network's course uses.
func coursePartition(n arch.Network, ranks int) ([]int, []int32, error) {
	if strings.HasPrefix(n.Name, "vgg16-pipeline") {
		layers, err := arch.VGG16Split(ranks)
		return layers, graph.InOrder(ranks).First, err
	}
	if !strings.HasPrefix(n.Name, "gpt2") {
		return nil, nil, fmt.Errorf(`"course" is known for gpt2 and vgg16-pipeline, not for %s`, n.Name)
	}
	layers, rankOf, err := arch.GPT2CoursePlacement(n, ranks)
	stageRank := make([]int32, len(rankOf))
	for s, r := range rankOf {
		stageRank[s] = int32(r)
	}
	return layers, stageRank, err
}

// layerCosts is the time of every layer, forward and backward, for the first
// microbatch.
func layerCosts(w stages.Workload, m costmodel.Machine) ([]float64, error) {
	compute, err := m.Compute(w.Training)
	if err != nil {
		return nil, err
	}
	costs := make([]float64, len(w.Network.Layers))
	for i, l := range w.Network.Layers {
		n := w.Samples[0]
		costs[i] = float64(compute.Layer(l, arch.Forward, n) + compute.Backward(l, n) + compute.Recompute(l, w.Training, n))
	}
	return costs, nil
}

// layerNames is a short list of a network's layers for messages.
func layerNames(n arch.Network) string {
	var names []string
	for _, l := range n.Layers {
		names = append(names, l.Name)
	}
	if len(names) > 6 {
		names = append(append(names[:3:3], "…"), names[len(names)-2:]...)
	}
	return strings.Join(names, ", ")
}
