package configs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim/schedules"
	"psim/schedules/collective"
)

// work says what an experiment prices its tasks by.
type work int

const (
	byTimes work = iota
	byModel
	byCollective
)

// work tells which of the three an experiment has.
func (c *Config) work() (work, error) {
	given := []string{}
	kind := byTimes
	for w, section := range []string{"times", "model", "collective"} {
		if c.Defined(section) {
			given = append(given, "["+section+"]")
			kind = work(w)
		}
	}
	switch len(given) {
	case 0:
		return 0, &Error{Label: c.sources[0].label, Problem: "there is neither [times], [model] nor [collective]; exactly one of them says what the tasks cost"}
	case 1:
		return kind, nil
	}
	last := strings.Trim(given[len(given)-1], "[]")
	return 0, c.problem(last, fmt.Errorf("there is %s; exactly one of them may say what the tasks cost", strings.Join(given, " and ")))
}

// validate checks what can be said before anything is built.
func (c *Config) validate() error {
	kind, err := c.work()
	if err != nil {
		return err
	}
	if !c.Defined("schedule.name") && !c.Defined("schedule.file") {
		return c.problem("schedule", fmt.Errorf("name is missing: legal are %s", strings.Join(legalNames(), ", ")))
	}
	if err := c.positive(); err != nil {
		return err
	}
	if kind == byCollective {
		return c.validateCollective()
	}
	for _, e := range []struct {
		section string
		err     error
	}{{"parallel", c.Parallel.Validate()}, {"train", c.Train.Validate()}, {"memory", c.Memory.Validate()}} {
		if e.err != nil {
			return c.problem(e.section, e.err)
		}
	}
	return c.validateSections(kind)
}

// validateCollective checks an experiment that is one collective.
func (c *Config) validateCollective() error {
	for _, section := range []string{"batch", "parallel", "train", "memory"} {
		if c.Defined(section) {
			return c.problem(section, errors.New("the section has no meaning for a [collective]; remove it"))
		}
	}
	var names []string
	for _, k := range collective.Conventions() {
		names = append(names, k.Name)
	}
	if name := c.Collective.Convention; c.Defined("collective.convention") && !slices.Contains(names, name) {
		return c.problem("collective", fmt.Errorf("convention = %q: legal are %s", name, strings.Join(names, ", ")))
	}
	return nil
}

// validateSections refuses sections that would be ignored.
func (c *Config) validateSections(kind work) error {
	if kind == byTimes {
		if c.Defined("schedule.partition") {
			return c.problem("schedule", errors.New("partition: cuts the layers of a [model]; beside [times] it has no meaning"))
		}
		for _, section := range []string{"machine", "train"} {
			if c.Defined(section) {
				return c.problem(section, errors.New("the section has no meaning beside [times], which gives the times itself; use [model] or remove it"))
			}
		}
		for _, key := range []string{"zero", "bucket", "overlap", "collectives", "tensor_overlap", "scatter_gather"} {
			if c.Defined("parallel." + key) {
				return c.problem("parallel", fmt.Errorf("%s = …: has no meaning beside [times], which knows no gradients; use [model] or remove it", key))
			}
		}
		if c.Parallel.Tensor > 1 {
			return c.problem("parallel", fmt.Errorf("tensor = %d: the times of [times] are those of a whole stage, however many devices it is divided among; use [model] or set tensor = 1", c.Parallel.Tensor))
		}
		if c.Parallel.Data > 1 {
			return c.problem("parallel", fmt.Errorf("data = %d: [times] does not say how large the gradients are; use [model]", c.Parallel.Data))
		}
		return nil
	}
	if c.Defined("memory") {
		return c.problem("memory", errors.New("the section goes with [times]; a [model] has its own activations"))
	}
	if c.Parallel.Zero == 3 && c.Schedule.File != "" {
		return c.problem("parallel", errors.New(`zero = 3: parameters are sharded layer by layer only with schedule.name = "ddp", not with an order of one's own; set zero = 2, or remove schedule.file`))
	}
	if c.Parallel.Zero == 3 && c.Schedule.Name != "ddp" && slices.Contains(schedules.Names(), c.Schedule.Name) {
		return c.problem("parallel", fmt.Errorf(`zero = 3: parameters are sharded layer by layer only with schedule.name = "ddp", not with %s; set zero = 2, or schedule.name = "ddp"`, c.Schedule.Name))
	}
	return nil
}

// positive checks the counts that may be left out but not be zero or
// negative.
func (c *Config) positive() error {
	for _, e := range []struct {
		key   string
		value int64
	}{
		{"schedule.stages", int64(c.Schedule.Stages)}, {"schedule.microbatches", int64(c.Schedule.Microbatches)},
		{"schedule.virtual_stages", int64(c.Schedule.VirtualStages)}, {"schedule.group", int64(c.Schedule.Group)},
		{"batch.global", c.Batch.Global}, {"batch.micro", c.Batch.Micro},
		{"parallel.data", int64(c.Parallel.Data)}, {"parallel.tensor", int64(c.Parallel.Tensor)},
		{"collective.ranks", int64(c.Collective.Ranks)},
		{"machine.devices_per_node", int64(c.Machine.DevicesPerNode)}, {"machine.nics_per_node", int64(c.Machine.NICsPerNode)},
		{"model.layers", int64(c.Model.Layers)}, {"model.hidden", int64(c.Model.Hidden)}, {"model.heads", int64(c.Model.Heads)},
		{"model.kv_heads", int64(c.Model.KVHeads)}, {"model.ffn_hidden", int64(c.Model.FFNHidden)},
		{"model.vocab", int64(c.Model.Vocab)}, {"model.sequence_length", int64(c.Model.SequenceLength)},
		{"model.experts", int64(c.Model.Experts)}, {"model.experts_per_token", int64(c.Model.ExpertsPerToken)},
		{"model.head_dim", int64(c.Model.HeadDim)}, {"model.positions", int64(c.Model.Positions)},
	} {
		unset := e.key == "schedule.group" && e.value == 0 // as if it were not there
		if c.Defined(e.key) && !unset && (e.value < 1 || e.value > math.MaxInt32) {
			section, key, _ := strings.Cut(e.key, ".")
			legal := "it must be at least 1"
			if e.value > 1 {
				legal = fmt.Sprintf("it must be at most %d", math.MaxInt32)
			}
			return c.problem(section, fmt.Errorf("%s = %d: %s", key, e.value, legal))
		}
	}
	return c.positiveQuantities()
}

// positiveQuantities checks the same of quantities with a unit.
func (c *Config) positiveQuantities() error {
	compute := c.Machine.Compute
	for _, e := range []struct {
		key  string
		zero bool
	}{
		{"collective.bytes", c.Collective.Bytes == 0},
		{"memory.limit", c.Memory.Limit == 0},
		{"machine.compute.flops", compute.FLOPS == 0},
		{"machine.compute.memory_bandwidth", compute.MemoryBandwidth == 0},
		{"machine.compute.memory", compute.Memory == 0},
	} {
		if e.zero && c.Defined(e.key) {
			section, key, _ := strings.Cut(e.key, ".")
			return c.problem(section, fmt.Errorf("%s: must be more than zero, or left out", key))
		}
	}
	return nil
}

// legalNames lists what schedule.name may be.
func legalNames() []string {
	return slices.Concat(schedules.Names(), []string{autoName, autoVName}, collective.Names())
}
