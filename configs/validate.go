package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"psim/configs/parallel"
	"psim/internal/setting"
	"psim/schedules"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A work is the section that says what the tasks of an experiment cost.
type work string

const (
	byTimes      work = "[times]"
	byModel      work = "[model]"
	byCollective work = "[collective]"
)

// work returns the one of the three sections that an experiment has.
func (c *Config) work() (work, error) {
	given := []string{}
	for _, w := range []work{byTimes, byModel, byCollective} {
		if c.Defined(w.section()) {
			given = append(given, string(w))
		}
	}
	switch {
	case len(c.sources) == 0:
		return "", errors.New("an empty configuration; Load or Parse makes one")
	case len(given) == 0:
		return "", &Error{Label: c.sources[0].label, Problem: "there is neither [times], [model] nor [collective]; " +
			"exactly one of them says what the tasks cost"}
	case len(given) == 1:
		return work(given[0]), nil
	}
	return "", c.problemf(work(given[len(given)-1]).section(), "there is %s; exactly one of them may say what the "+
		"tasks cost", strings.Join(given, " and "))
}

// section returns the name without brackets.
func (w work) section() string { return strings.Trim(string(w), "[]") }

// noMeaning explains why a setting has no meaning with the section.
func (w work) noMeaning() string {
	switch w {
	case byTimes:
		return "has no meaning with [times], which gives the times itself and knows no layers; " +
			"use [model] or remove it"
	case byModel:
		return "has no meaning with [model], which knows its activations; remove it"
	}
	return "has no meaning with [collective], which has no stages and no microbatches; remove it"
}

// validate checks everything that does not require building. Single values were checked when they
// were read.
func (c *Config) validate() error {
	if err := inRange(c.sources); err != nil {
		return err
	}
	kind, err := c.work()
	if err != nil {
		return err
	}
	if err := c.settle(kind); err != nil {
		return err
	}
	if !c.Defined("schedule.name") && !c.Defined("schedule.file") {
		return c.problemf("schedule", "name is missing; use one of %s", strings.Join(scheduleNames(), ", "))
	}
	if err := c.checkMeaning(kind); err != nil {
		return err
	}
	for _, e := range []struct {
		section string
		err     error
	}{
		{"data", c.Data.Validate()}, {"parallel", c.Parallel.Validate()},
		{"train", c.Train.Validate()}, {"train", c.checkOffloadApart()}, {"memory", c.Memory.Validate()},
	} {
		if e.err != nil {
			return c.problem(e.section, e.err)
		}
	}
	if kind == byCollective {
		if err := setting.Validate(c.Collective); err != nil {
			return c.problem("collective", err)
		}
	}
	return c.checkParallel(kind)
}

// checkMeaning refuses settings that would be ignored.
func (c *Config) checkMeaning(kind work) error {
	for section, options := range setting.Each(*c) {
		name := section.Key
		switch {
		case !c.Defined(name) || name == kind.section():
			continue
		case name == "train" && kind == byTimes && c.onlyStack():
			continue
		case section.Meaningless(string(kind)):
			return c.problemf(name, "the section %s", kind.noMeaning())
		}
		for s := range setting.Each(options) {
			order := name == "schedule" && s.Key != "name" // a collective has no order
			if c.Defined(name+"."+s.Key) && (s.Meaningless(string(kind)) || order && kind == byCollective) {
				return c.problemf(name, "%s: %s", s.Key, kind.noMeaning())
			}
		}
	}
	return nil
}

// onlyStack reports whether a stack is the only key of [train].
func (c *Config) onlyStack() bool {
	for s := range setting.Each(c.Train) {
		if s.Key != "stack" && c.Defined("train."+s.Key) {
			return false
		}
	}
	return true
}

// checkParallel refuses divisions whose times [times] cannot have, and ZeRO 3 with an order from a file.
func (c *Config) checkParallel(kind work) error {
	sharded := kind == byModel && c.Parallel.Zero == 3
	var err error
	switch {
	case kind == byTimes && c.Parallel.Tensor > 1:
		err = fmt.Errorf("tensor = %d: the times of [times] are those of a whole stage, however many devices it is "+
			"divided among; use [model] or set tensor = 1", c.Parallel.Tensor)
	case kind == byTimes && c.Parallel.Data > 1:
		err = fmt.Errorf("data = %d: [times] does not say how large the gradients are; use [model]", c.Parallel.Data)
	case kind == byModel && c.Parallel.Expert > 1 && c.Batch.Shards != nil:
		err = fmt.Errorf("expert = %d: devices that share experts have equally many tokens; remove batch.shards, "+
			"or set expert = 1", c.Parallel.Expert)
	case sharded && c.Schedule.File != "":
		err = errors.New("zero = 3: parameters are sharded layer by layer, and an order from a file does not say " +
			"in which order layers run; set zero = 2, or remove schedule.file")
	default:
		return nil
	}
	return c.problem("parallel", err)
}

// scheduleNames lists the legal values of schedule.name.
func scheduleNames() []string {
	return slices.Concat(schedules.Names(), []string{fsdpName, autoName, autoVName}, collective.Names())
}

// checkSize refuses a graph that would be too large, before it is built: every stage has a forward
// and a backward of every microbatch, in every replica.
func (c *Config) checkSize() error {
	if tasks := 2 * c.stageMicrobatches(); tasks > graph.MaxTasks {
		stages := c.stages()
		key, value := "microbatches", tasks/2/stages/float64(c.Parallel.Data)
		if stages > value && c.Parallel.Zero < 3 {
			key, value = "stages", stages
		}
		return fmt.Errorf("%s = %.0f: the graph would have at least %.2g tasks, more than %d", key, value, tasks,
			graph.MaxTasks)
	}
	return nil
}

// Tasks estimates the size of the graph before its order is made, without the sums over replicas
// at the end. Wiring counts exactly.
func (c *Config) Tasks() float64 {
	if kind, err := c.work(); err == nil && kind == byCollective {
		ring, _ := collective.Find(c.Schedule.Name) // without a name there are no tasks
		return ring.Tasks(c.Collective.Ranks)
	}
	// F, I, W and a message after each of the first two; or with ZeRO 3 F, B, a gather before each,
	// and a sum.
	const most = 5
	return most * c.stageMicrobatches()
}

// Ranks counts the ranks of all replicas.
func (c *Config) Ranks() float64 {
	if kind, err := c.work(); err == nil && kind == byCollective {
		return float64(c.Collective.Ranks)
	}
	return float64(max(1, c.Schedule.Stages)) * float64(c.Parallel.Data)
}

// Devices counts the devices of all ranks, before any graph is built.
func (c *Config) Devices() float64 {
	return c.Ranks() * float64(max(1, c.Parallel.Tensor)) * float64(max(1, c.Parallel.Context))
}

// Microbatches estimates the number of microbatches of a replica.
func (c *Config) Microbatches() float64 {
	microbatches := float64(max(1, c.Schedule.Microbatches))
	if c.Batch.Micro > 0 {
		microbatches = max(microbatches, float64(c.Batch.Global)/float64(c.Parallel.Data)/float64(c.Batch.Micro))
	}
	return microbatches
}

func (c *Config) stageMicrobatches() float64 {
	return c.stages() * c.Microbatches() * float64(c.Parallel.Data)
}

// stages counts the stages; with ZeRO 3 these are the units that are gathered.
func (c *Config) stages() float64 {
	if (c.Parallel.Zero == 3 || c.Train.OffloadActivations > 0) && c.Parallel.Unit != parallel.UnitStage {
		if n, err := c.network(); err == nil { // otherwise building reports the error
			return float64(len(n.Layers))
		}
	}
	return float64(max(1, c.Schedule.Stages)) * float64(c.PerRank())
}

// PerRank counts the stages of a rank.
func (c *Config) PerRank() int {
	virtual := c.Schedule.VirtualStages
	if s, err := findSchedule(c.Schedule.Name); err == nil {
		virtual = c.shape(s, 1).Virtual
	}
	return max(1, virtual)
}
