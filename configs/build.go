package configs

import (
	"context"
	"fmt"
	"math"
	"slices"

	"psim/costmodel"
	"psim/costmodel/lengths"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/internal/setting"
	"psim/schedules"
	"psim/schedules/collective"
	"psim/schedules/graph"
	"psim/schedules/search"
	"psim/schedules/wiring"
)

// maxBytes keeps sums of a few sizes within 63 bits.
const maxBytes = 1 << 61

// An Experiment is a configuration that has been built, ready to be simulated.
type Experiment struct {
	Graph *graph.Graph
	Costs graph.Costs
	// Samples and Tokens are the numbers that one step trains on, over all replicas; 0 if the
	// experiment does not give them.
	Samples, Tokens int64
	// DataSet is the number of samples of the data set, 0 if it is not given.
	DataSet int64
	// Capacity is the memory of every rank, or nil if it is unlimited or
	// unknown.
	Capacity []int64
	// Close is the share of the memory, at its end, within which a peak that fits counts as close.
	Close    float64
	Warnings []string
	// Staged is the plan of the stages, nil unless the experiment has a [model].
	Staged *stages.Staged
	// Network is the whole network of [model], not divided by tensor parallelism.
	Network network.Network
	Machine costmodel.Machine
	// Batches are those of samples that are padded; the zero value for others.
	Batches lengths.Batches
	// Search is the order that was found if schedule.name is "auto" or "auto-v"; otherwise nil.
	Search *search.Solution
}

// Build turns the experiment into a graph and its costs.
func (c *Config) Build() (*Experiment, error) {
	return c.BuildFor(context.Background(), BuildOptions{})
}

// BuildOptions are options of building an experiment.
type BuildOptions struct {
	// Reserve is the memory that the search for a schedule leaves free on every rank of a replica,
	// for messages that wait to be used. Their number is known only after the graph has been run.
	Reserve []int64
	// Folded lets the first replica stand for all, where all do the same at the same time.
	Folded bool
	// Brief omits the microbatches of tasks, which statistics do not need.
	Brief bool
}

// BuildFor is Build with options. The context ends the search for a schedule.
func (c *Config) BuildFor(ctx context.Context, o BuildOptions) (*Experiment, error) {
	kind, err := c.work()
	if err != nil {
		return nil, err
	}
	if kind == byCollective {
		return c.buildRing()
	}
	c, schedule, err := c.ordered()
	if err != nil {
		return nil, err
	}
	if schedule.Pipelined && !c.Defined("schedule.stages") && c.Schedule.File == "" {
		return nil, c.problemf("schedule", "stages is missing: say over how many ranks the network is cut")
	}
	if err := c.checkSize(); err != nil {
		return nil, c.problem("schedule", err)
	}
	build := func() (*Experiment, error) {
		experiment, err := c.buildTimes(ctx, schedule, o)
		if err == nil {
			experiment.Warnings = slices.Concat(c.changes, c.moreWork(), experiment.Warnings)
		}
		return experiment, err
	}
	if kind == byModel {
		build = func() (*Experiment, error) { return c.buildModel(ctx, schedule, o) }
	}
	experiment, err := build()
	if err == nil {
		err = c.sizeData(experiment)
	}
	if err == nil {
		experiment.Warnings = append(experiment.Warnings, c.notInStack()...)
	}
	if err == nil && schedule.LeftOut != "" {
		experiment.Warnings = append(experiment.Warnings, schedule.Name+": "+schedule.LeftOut)
	}
	return experiment, err
}

// sizeData notes how many samples the data set has.
func (c *Config) sizeData(experiment *Experiment) error {
	perSample := int64(experiment.Network.TokensPerSample)
	if experiment.Batches.Padded > 0 {
		perSample = max(1, int64(math.Round(experiment.Batches.Real())))
	}
	switch {
	case c.Data.Tokens > 0 && experiment.Network.TokensPerSample < 2:
		return c.problemf("data", "tokens: samples of this network have no tokens; give data.samples")
	case c.Data.Size(perSample) > 0 && experiment.Samples == 0:
		return c.problemf("data", "samples: the number of steps is unknown; "+
			"say in [batch] how many samples a step takes")
	}
	experiment.DataSet = c.Data.Size(perSample)
	return nil
}

// unknownSchedule returns an error for a name that is not in the catalog, with a suggestion.
func (c *Config) unknownSchedule() error {
	name := c.Schedule.Name
	if _, err := collective.Find(name); err == nil {
		return fmt.Errorf("name = %q: a collective by itself needs [collective], not [times] or [model]", name)
	}
	return fmt.Errorf("name: unknown schedule %q%s", name, setting.Meant(name, scheduleNames()))
}

// shape sizes the schedule for a number of microbatches.
func (c *Config) shape(s schedules.Schedule, microbatches int) graph.Shape {
	return s.Sized(graph.Shape{
		Ranks: c.Schedule.Stages, Virtual: c.Schedule.VirtualStages,
		Microbatches: microbatches, Replicas: c.Parallel.Data, Group: c.Schedule.Group,
	})
}

// orderProblem reports an order that cannot be made. If the error names no key, it blames the
// placement or the partition that is given.
func (c *Config) orderProblem(err error) error {
	for _, key := range []string{"placement", "partition"} {
		if c.Defined("schedule."+key) && !keyAtStart.MatchString(err.Error()) {
			return c.problemf("schedule", "%s: %w", key, err)
		}
	}
	return c.problem("schedule", err)
}

// pipeline prepares the schedule for wiring, or searches for one with schedule.name = "auto" or
// "auto-v".
func (c *Config) pipeline(
	s schedules.Schedule, shape graph.Shape, stageRank []int32, find func() (*search.Solution, error),
) (wiring.Pipeline, *search.Solution, error) {
	if !IsSearched(s.Name) {
		p, err := s.Pipeline(shape, stageRank)
		if err != nil {
			return p, nil, c.orderProblem(err)
		}
		p, err = c.exchanging(s, p)
		return p, nil, err
	}
	if err := c.checkAuto(s, stageRank); err != nil {
		return wiring.Pipeline{}, nil, c.orderProblem(err)
	}
	p, err := c.exchanging(s, wiring.Pipeline{Name: s.Name, Shape: shape, Placement: graph.Placement{First: stageRank}})
	if err != nil {
		return p, nil, err
	}
	found, err := find()
	if err == nil {
		p.Order = found.Order
	}
	return p, found, err
}

// exchanging lets the work of a pipeline hide all-to-alls, if there are any and the configuration
// asks for it.
func (c *Config) exchanging(s schedules.Schedule, p wiring.Pipeline) (wiring.Pipeline, error) {
	if c.Parallel.Expert <= 1 {
		return p, nil
	}
	p.DelayWeights = c.Parallel.DelayWeights
	if !c.Parallel.ExpertOverlap {
		return p, nil
	}
	p, err := s.OverlapExperts(p)
	if err != nil {
		err = c.problem("parallel", err)
	}
	return p, err
}

func (c *Config) buildTimes(ctx context.Context, schedule schedules.Schedule, o BuildOptions) (*Experiment, error) {
	samples, shape, stageRank, err := c.timesShape(schedule)
	if err != nil {
		return nil, err
	}
	pipeline, found, err := c.pipeline(schedule, shape, stageRank, func() (*search.Solution, error) {
		return c.searchTimes(ctx, shape, stageRank)
	})
	if err != nil {
		return nil, err
	}
	if err := c.checkTimes(len(stageRank), shape.Microbatches, pipeline.Order.Split()); err != nil {
		return nil, err
	}
	if pipeline.Pairs, err = wiring.ParsePairing(c.Times.Pair); err != nil {
		return nil, c.problem("times", err)
	}
	pipeline.Samples, pipeline.Optimizer = samples, c.Times.Optimizer > 0
	experiment := &Experiment{Samples: sum(samples), Search: found}
	apart := c.Times.ByMicrobatch()
	pipeline.Brief, pipeline.Folded = o.Brief && !apart, o.Folded && !apart
	price := func(g *graph.Graph) (graph.Costs, error) { return c.Times.Costs(c.Memory, g.Placement), nil }
	if err := c.wire(experiment, pipeline, price); err != nil {
		return nil, err
	}
	if c.Memory.Limit > 0 {
		experiment.Capacity = slices.Repeat([]int64{int64(c.Memory.Limit)}, experiment.Graph.Ranks())
	}
	return experiment, nil
}

// timesShape sizes an experiment with [times], and places its stages. Samples are
// nil unless there is a [batch].
func (c *Config) timesShape(
	schedule schedules.Schedule,
) (samples []int64, shape graph.Shape, stageRank []int32, err error) {
	microbatches := max(1, c.Schedule.Microbatches)
	if c.Defined("batch") {
		if samples, err = c.Batch.Samples(1, c.Schedule.Microbatches); err != nil {
			return nil, shape, nil, c.problem("batch", err)
		}
		microbatches = len(samples)
	}
	shape = c.shape(schedule, microbatches)
	if stageRank, err = c.placement(c.Schedule.Stages); err == nil {
		err = schedule.Check(shape)
	}
	if err != nil {
		return nil, shape, nil, c.problem("schedule", err)
	}
	if stageRank == nil {
		stageRank = schedule.Placement(shape).First
	}
	return samples, shape, stageRank, nil
}

// checkTimes compares [times] with the size of the order, and refuses activations whose sum
// overflows.
func (c *Config) checkTimes(stages, microbatches int, split bool) error {
	if err := c.Times.Validate(stages, microbatches, split); err != nil {
		return c.problem("times", err)
	}
	if whole := float64(c.Memory.Activation) * float64(stages*microbatches); whole > maxBytes {
		return c.problemf("memory", "activation = %q: all microbatches together would take %.2g bytes, more than can "+
			"be counted", c.Memory.Activation, whole)
	}
	return nil
}

// placement checks schedule.placement, if it is given, against the number of ranks.
func (c *Config) placement(ranks int) ([]int32, error) {
	if c.Schedule.Placement == nil {
		return nil, nil
	}
	for _, r := range c.Schedule.Placement {
		if r < 0 || int(r) >= ranks {
			return nil, fmt.Errorf("placement = %v: rank %d is outside 0 to %d", c.Schedule.Placement, r, ranks-1)
		}
	}
	used := slices.Compact(slices.Sorted(slices.Values(c.Schedule.Placement)))
	for r := range ranks {
		if r == len(used) || int(used[r]) != r {
			return nil, fmt.Errorf("placement = %v: rank %d has no stage", c.Schedule.Placement, r)
		}
	}
	return c.Schedule.Placement, nil
}

func (c *Config) buildRing() (*Experiment, error) {
	row, err := collective.Find(c.Schedule.Name)
	if err != nil {
		return nil, c.problemf("schedule", "name = %q: [collective] needs a collective, such as %s",
			c.Schedule.Name, collective.RingAllReduce)
	}
	if float64(c.Collective.Bytes) > maxBytes {
		return nil, c.problemf("collective", "bytes = %q: what all ranks send would be more than can be counted",
			c.Collective.Bytes)
	}
	machine, err := c.machine(false)
	if err != nil {
		return nil, c.problem("machine", err)
	}
	g, err := collective.Call{
		Collective: c.Schedule.Name, Ranks: c.Collective.Ranks,
		Length: int64(c.Collective.Bytes), Convention: c.Collective.Convention,
	}.Graph()
	if err != nil {
		return nil, c.problem("collective", err)
	}
	costs, err := costmodel.SpelledCosts(machine, g, costmodel.Fused{Kind: row.Result, Algorithm: row.Algorithm})
	if err != nil {
		return nil, c.problem("machine", err)
	}
	return &Experiment{Graph: g, Costs: costs, Machine: machine, Warnings: c.onlySpelled(row)}, nil
}

func sum(values []int64) int64 {
	var total int64
	for _, v := range values {
		total += v
	}
	return total
}

// wire makes the graph of an experiment and its costs. Of a folded pipeline the first replica stands
// for all, if all do the same at the same time; otherwise the graph has all of them.
func (c *Config) wire(e *Experiment, p wiring.Pipeline, price func(*graph.Graph) (graph.Costs, error)) (err error) {
	p.Synchronous, p.WholeLast = c.Schedule.Synchronous, c.Schedule.WholeLast
	for _, p.Folded = range []bool{p.Folded && p.Foldable(), false} {
		if e.Graph, err = p.Graph(); err != nil {
			return c.problem("schedule", err)
		}
		if e.Costs, err = price(e.Graph); err != nil {
			return err
		}
		compared := e.Graph
		if e.Staged != nil && e.Staged.Shards == nil { // what devices compute costs the same in all replicas
			compared = compared.Routes()
		}
		if !p.Folded || compared.Alike(e.Costs) {
			break
		}
	}
	return nil
}
