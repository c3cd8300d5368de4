package configs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"psim/configs/parallel"
	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/hfconfig"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/setting"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/search"
	"psim/schedules/wiring"
)

func (c *Config) buildModel(ctx context.Context, schedule schedules.Schedule, o BuildOptions) (*Experiment, error) {
	w, machine, err := c.workload(schedule)
	if err != nil {
		return nil, err
	}
	shape := c.shape(schedule, len(w.Samples))
	pipeline, found, err := c.pipeline(schedule, shape, w.Pipeline(), func() (*search.Solution, error) {
		return c.searchModel(ctx, shape, modelSearch{w, machine, o.Reserve})
	})
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(c.checkTwoPass(pipeline.Order.Split()), c.checkCopied(pipeline)); err != nil {
		return nil, err
	}
	planned := w.Staged()
	if err := c.checkUnits(w, planned, pipeline); err != nil {
		return nil, err
	}
	pipeline.Order = ordered(w, pipeline.Order)
	planned.Fill(&pipeline)
	pipeline.Optimizer, pipeline.Folded, pipeline.Brief = true, o.Folded, o.Brief
	experiment := &Experiment{Staged: planned, Machine: machine, Samples: w.Total(), Search: found}
	if err := c.wire(experiment, pipeline, c.stepCosts(machine, planned)); err != nil {
		return nil, err
	}
	g := experiment.Graph
	if experiment.Network, err = c.undivided(w); err != nil {
		return nil, c.problem("model", err)
	}
	if err := c.countTokens(experiment); err != nil {
		return nil, c.problem("data", err)
	}
	experiment.Warnings = slices.Concat(
		c.changes, c.oneNode(machine), c.withoutEffect(), c.adapterUnsaid(), c.nothingSplit(pipeline.Order),
		c.heldAnyway(planned),
		c.ringOverWindows(), c.wideKernels(),
		c.withoutCopies(machine), unmeasured(planned, machine.Device), unusedRanges(machine, g.Ranks()),
		c.assumptions(machine, g.Ranks()), c.ofPadding(experiment),
	)
	experiment.Close = closeMargin(machine.Device)
	if machine.Device.Memory > 0 {
		experiment.Capacity = slices.Repeat([]int64{machine.Device.Usable()}, g.Ranks())
	}
	return experiment, nil
}

// stepCosts returns a function that prices graphs wired from a plan of stages.
func (c *Config) stepCosts(m costmodel.Machine, planned *stages.Staged) func(*graph.Graph) (graph.Costs, error) {
	return func(g *graph.Graph) (graph.Costs, error) {
		costs, err := costmodel.StepCosts(m, planned, g)
		if err != nil {
			err = c.problem("machine", err)
		}
		return costs, err
	}
}

// checkTwoPass refuses a backward in two passes if the schedule splits it, or if several devices
// divide a stage.
func (c *Config) checkTwoPass(split bool) error {
	switch {
	case !c.Train.TwoPass():
		return nil
	case split:
		return c.problemf("train", `backward = "two-pass": schedule %s has tasks of their own for gradients of `+
			`inputs and of weights; set "whole" or "per-layer"`, c.Schedule.Name)
	case c.Parallel.Tensor > 1:
		return c.problemf("train", `backward = "two-pass": is not modelled with parallel.tensor = %d; `+
			`set "whole" or "per-layer"`, c.Parallel.Tensor)
	case c.Parallel.Context > 1:
		return c.problemf("train", `backward = "two-pass": is not modelled with parallel.context = %d; `+
			`set "whole" or "per-layer"`, c.Parallel.Context)
	case c.Parallel.Expert > 1:
		return c.problemf("train", `backward = "two-pass": is not modelled with parallel.expert = %d; set "whole"`,
			c.Parallel.Expert)
	}
	return nil
}

// trainedOn returns [train] as a machine runs it. It refuses a precision that the machine has no
// rate for or the network cannot use, and recomputation of modules that the network lacks or that
// is not modelled.
func (c *Config) trainedOn(n network.Network, m costmodel.Machine) (training.Options, error) {
	t := c.Train.Options
	t.BothWays, t.Microbatches = m.Device.Microscaling, c.Microbatches()
	_, err := m.Compute(t)
	if err == nil {
		err = c.shared.check(n, t)
	}
	switch {
	case err != nil:
	case t.Paged() && m.HostLink.Bandwidth == 0:
		err = fmt.Errorf(`optimizer = %q: needs the link to the host's memory; set machine.host_link, such as "pcie4"`,
			t.Optimizer)
	case t.Optimizer == training.OptimizerMuon && c.Parallel.Zero == 3:
		err = fmt.Errorf(`optimizer = "muon": is not modelled with parallel.zero = 3, which leaves no matrix whole; ` +
			`set parallel.zero = 2 or less`)
	case t.UpdateIn == training.UpdateInBackward && t.Microbatches > 1:
		err = fmt.Errorf(`update_in = "backward": needs whole gradients after one microbatch, and there are %g; `+
			`set batch.global = data × micro`, t.Microbatches)
	case t.UpdateIn == training.UpdateInBackward && c.Parallel.Expert > 1 && c.Parallel.Zero == 3:
		err = fmt.Errorf(`update_in = "backward": is not modelled with parallel.zero = 3 and parallel.expert = %d; `+
			`set "step"`, c.Parallel.Expert)
	case t.Split == training.SplitStage && c.Parallel.DelayWeights:
		err = fmt.Errorf(`split = %q: is not modelled with parallel.delay_weights = true; set split = %q`,
			t.Split, training.SplitLayer)
	case t.Narrow() && c.Parallel.Zero == 3 && (c.Parallel.Gather == parallel.GatherTensor || c.Parallel.Simplified):
		err = fmt.Errorf(`precision = %q: is not modelled with parallel.gather = "tensor", `+
			`nor with parallel.simplified = true; remove them`, t.Precision)
	case c.Parallel.Zero == 3 && t.Recompute == "full" && t.RecomputeMethod == training.RecomputeUniform &&
		t.RecomputeLayers > 1:
		err = fmt.Errorf(`recompute_layers = %d: is not modelled with parallel.zero = 3 and recompute_method = `+
			`"uniform", which would gather all of these blocks at once; set 0, or "block"`, t.RecomputeLayers)
	}
	return t, err
}

// workload cuts the network into stages and microbatches, for the machine that it is
// trained on.
func (c *Config) workload(schedule schedules.Schedule) (*stages.Workload, costmodel.Machine, error) {
	var machine costmodel.Machine
	network, err := c.network()
	if err != nil {
		return nil, machine, c.problem("model", err)
	}
	samples, shards, err := c.shared.samples(c)
	if err != nil {
		return nil, machine, c.problem("batch", err)
	}
	if machine, err = c.shared.readMachine(func() (costmodel.Machine, error) { return c.machine(true) }); err != nil {
		return nil, machine, c.problem("machine", err)
	}
	c.layOut(&machine)
	training, err := c.trainedOn(network, machine)
	if err != nil {
		return nil, machine, c.problem("train", err)
	}
	adapted, err := c.adapted(network, training, samples[0])
	if err != nil {
		return nil, machine, c.problem("data", err)
	}
	p := c.Parallel
	w := &stages.Workload{
		Network: adapted, Training: training, Samples: samples, Shards: shards,
		Replicas: p.Data, Context: p.Context, Zero: p.Sharded(), ZeroGroup: p.Sharing(),
		Bucket: p.Bucket.Bytes, BucketGradients: p.Bucket.Gradients,
		Overlap: p.Overlap, OverlapGather: p.OverlapGather, NoReduceScatter: c.allReduces(),
		UpdatedAtOnce: p.UpdatedBy(parallel.UpdatedByStage), UpdatedByOwner: c.updatedByOwner(),
		PerTensor: p.Gather == parallel.GatherTensor, Copied: p.Gather == parallel.GatherCopied,
		Staging: c.staging(machine), Loop: c.Schedule.Detail == schedules.LoopDetail,
		Simplified: p.Simplified, SumOnce: p.SumOnce, Broadcast: p.Broadcast, WholeLast: c.Schedule.WholeLast,
		Process: c.Memory.Process(c.groups()),
	}
	if err := w.Validate(c.shared.bytesPerSample(w.Network)); err != nil {
		return nil, machine, c.problem("batch", err)
	}
	if err := cmp.Or(c.checkWholeLast(w), c.checkLoop(w), c.checkOffload(w, machine, schedule)); err != nil {
		return nil, machine, err
	}
	if err := c.divide(w, machine, schedule); err != nil {
		return nil, machine, c.problem("schedule", err)
	}
	return w, machine, nil
}

// divide cuts the network into stages, and places them.
func (c *Config) divide(w *stages.Workload, m costmodel.Machine, schedule schedules.Schedule) error {
	if c.Parallel.Zero == 3 && !schedule.Pipelined {
		return c.gatherUnits(w)
	}
	err := c.partition(w, m, schedule)
	if err == nil && w.Layered() && c.Parallel.Unit != parallel.UnitStage {
		w.CutIntoLayers()
	}
	return err
}

// ordered returns the order of a workload's stages, given that of its pipeline, which under ZeRO 3 is cut into layers.
func ordered(w *stages.Workload, o order.Order) order.Order {
	if w.PipelineLayers == nil {
		return o
	}
	return o.Layered(w.PipelineLayers)
}

// checkUnits refuses pipelines whose units ZeRO 3 does not gather in the order of their layers.
func (c *Config) checkUnits(w *stages.Workload, planned *stages.Staged, p wiring.Pipeline) error {
	const only = "name = %q: %s, which is not modelled with parallel.zero = 3; set parallel.zero = 2"
	switch {
	case w.Zero < 3 || len(w.Pipeline()) == len(p.Order) && len(p.Order) == 1:
		return nil
	case len(planned.Tied) > 0:
		return c.problemf("model", "tied = true: the first and the last stage have the same table, which is not "+
			"modelled with parallel.zero = 3; set tied = false, or parallel.zero = 2")
	case p.Stashing:
		return c.problemf("schedule", only, p.Name, "updates a stage after every microbatch")
	case p.Order.Paired():
		return c.problemf("schedule", only, p.Name, "runs forwards and backwards as pairs")
	case p.SerialBackward || c.Schedule.Synchronous:
		return c.problemf("schedule", only, p.Name, "has clock cycles of stages")
	}
	return nil
}

// checkWholeLast refuses a last stage that takes all microbatches at once, where several devices share it.
func (c *Config) checkWholeLast(w *stages.Workload) error {
	if w.WholeLast && (c.Parallel.Data > 1 || c.Parallel.Tensor > 1 || c.Parallel.Context > 1) {
		return c.problemf("schedule", "whole_last = true: is modelled for parallel.data = 1, "+
			"parallel.tensor = 1 and parallel.context = 1 only")
	}
	return nil
}

// byMatrix reports whether an optimizer needs whole matrices of replicas that share its states: gradients are then
// all-reduced, and each replica broadcasts the matrices that it has updated.
func (c *Config) byMatrix() bool {
	return c.Train.Optimizer == training.OptimizerMuon && (c.Parallel.Zero == 1 || c.Parallel.Zero == 2)
}

// allReduces reports whether replicas have whole sums of gradients where a reduce-scatter would leave shares.
func (c *Config) allReduces() bool {
	return c.Parallel.Collectives == gloo || !c.Parallel.ReduceScatter || c.byMatrix()
}

// updatedByOwner reports whether each replica broadcasts the parameters that it has updated.
func (c *Config) updatedByOwner() bool {
	return c.Parallel.UpdatedBy(parallel.UpdatedByOwner) || c.byMatrix()
}

// groups counts the groups in which every device communicates: replicas, tensor, context, experts
// and pipeline, and if there are several of these, also the group of all devices.
func (c *Config) groups() (n int) {
	p := c.Parallel
	sharers := max(1, p.Tensor) * max(1, p.Context) * max(1, p.Data) / max(1, p.Expert*p.ExpertTensor, p.Expert)
	if p.Expert == 1 {
		sharers = 1 // the same group as the replicas
	}
	for _, size := range []int{p.Data, p.Tensor, p.Context, p.Expert, sharers, c.Schedule.Stages} {
		if size > 1 {
			n++
		}
	}
	if n > 1 {
		n++
	}
	return n
}

// layOut tells the machine the devices of a rank, and if devices are counted replicas first, the
// numbers of stages and replicas.
func (c *Config) layOut(m *costmodel.Machine) {
	m.Tensor, m.Context = c.Parallel.Tensor, c.Parallel.Context
	if c.Parallel.Order == parallel.ReplicasFirst {
		m.Stages, m.Replicas = c.Schedule.Stages, c.Parallel.Data
	}
}

// gatherUnits makes the units of ZeRO 3, all on one rank: a stage of every layer, or one of all.
func (c *Config) gatherUnits(w *stages.Workload) error {
	for _, key := range []string{"partition", "first_blocks", "last_blocks", "placement"} {
		if c.Defined("schedule." + key) {
			return fmt.Errorf("%s: parallel.zero = 3 makes units of layers on every rank, as parallel.gather_unit "+
				"says; remove %s", key, key)
		}
	}
	if c.Parallel.Unit == parallel.UnitStage {
		w.Layers = []int{len(w.Network.Layers)}
	} else {
		w.Layers = slices.Repeat([]int{1}, len(w.Network.Layers))
	}
	w.Placement.First = make([]int32, len(w.Layers))
	return nil
}

// network reads [model], and the file it names. Its layers are those of one
// device of a tensor-parallel group.
func (c *Config) network() (network.Network, error) {
	group := group.Group{
		Devices: c.Parallel.Tensor, Sequence: c.Parallel.Sequence,
		Context: c.Parallel.Context, Method: c.Parallel.ContextMethod,
		Overlap: c.Parallel.TensorOverlap, Scatter: c.Parallel.ScatterGather,
		EachProduct: c.Parallel.TensorGather == parallel.GatherProduct,
		Expert:      c.Parallel.Expert, ExpertTensor: c.Parallel.ExpertTensor,
		DeepEP:    c.Parallel.Dispatcher == parallel.DispatcherDeepEP,
		EightBits: c.Parallel.Dispatch == parallel.DispatchFP8,
	}
	return c.shared.network(group, func() (network.Network, error) {
		divider, err := c.shared.divider(c)
		if err != nil {
			return network.Network{}, err
		}
		return divider.On(group)
	})
}

// ReadModel reads [model], and the file it names.
func (c *Config) ReadModel() (models.Model, error) {
	m, err := c.model()
	if err != nil {
		err = c.problem("model", err)
	}
	return m, err
}

// model does what ReadModel does, with errors that have no position yet.
func (c *Config) model() (models.Model, error) {
	model := c.Model
	if model.Preset == "" && model.File == "" && model.Family == "" {
		return model, errors.New("preset is missing: name one (psim list models), or give file or family")
	}
	err := model.Validate()
	if err == nil && model.File != "" {
		model, _, err = c.modelFile()
		given := c.Model // its other keys replace those of the file
		given.File = ""
		model = setting.Overlay(model, given)
	}
	if err == nil {
		return c.withLengths(c.withAttention(model))
	}
	return c.withAttention(model), err
}

// Undivided returns the network as one device has it.
func (c *Config) Undivided() (network.Network, error) {
	m, err := c.model()
	if err != nil {
		return network.Network{}, err
	}
	return m.Network()
}

// modelFile reads the file that [model] names, and lists what it ignores in the file.
func (c *Config) modelFile() (models.Model, []string, error) {
	data, err := c.readBeside(c.Model.File, maxNetwork)
	if err != nil {
		return models.Model{}, nil, fmt.Errorf("file = %q: %w", c.Model.File, err)
	}
	model, unread, err := hfconfig.Parse(data, c.Model.SequenceLength)
	if err != nil {
		err = fmt.Errorf("file = %q: %w", c.Model.File, err)
	}
	return model, unread, err
}

// withAttention gives a model that does not choose its attention fused attention if there are
// kernels for it: in 16 bits, on devices other than cores of a CPU.
func (c *Config) withAttention(m models.Model) models.Model {
	options, err := c.machineOptions()
	wide := c.Train.Precision == "" || c.Train.Precision == "fp32"
	if err != nil || wide || isCPU(options.Device) { // building reports the error
		return m
	}
	return m.Fused()
}

// undivided returns the network of a workload before devices divide its layers.
func (c *Config) undivided(w *stages.Workload) (network.Network, error) {
	if w.Network.Group.All() == 1 && !w.Network.Group.Dispatches() {
		return w.Network, nil
	}
	model, err := c.model()
	if err != nil {
		return network.Network{}, err
	}
	n, err := model.Network()
	if err != nil {
		return n, err
	}
	return c.timed(w.Training.Adapted(n), w.Training, w.Samples[0])
}
