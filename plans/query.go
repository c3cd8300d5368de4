package plans

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim/configs"
	"psim/internal/nearest"
	"psim/internal/setting"
	"psim/results/rankings"
	"psim/schedules"
)

// checkQuery refuses queries and configurations that a search over plans cannot serve.
func checkQuery(c *configs.Config, q Query) error {
	refuse := func(text string) error { return fmt.Errorf("%s: %s", c.Name(), text) }
	switch {
	case q.Devices < 1:
		return fmt.Errorf("%d devices: there must be at least 1", q.Devices)
	case q.Devices > math.MaxInt32:
		return fmt.Errorf("%d devices: there may be at most %d", q.Devices, math.MaxInt32)
	case q.Margin < 0 || q.Margin >= 1:
		return fmt.Errorf("a margin of %v: must be a share of the memory, from 0 to below 1", q.Margin)
	case !c.Defined("model"):
		return refuse("plans for a number of devices need a [model], which can be divided; " +
			"without --devices a search keeps the configured division")
	case c.Schedule.File != "":
		return refuse("schedule.file gives the order, but a search chooses it; remove file")
	case c.Schedule.Placement != nil:
		return refuse("schedule.placement says where the stages are, but a search chooses how many there are; " +
			"remove placement")
	case c.Schedule.WholeLast:
		return refuse("schedule.whole_last is for one replica and no tensor parallelism; remove it")
	case c.Batch.Shards != nil:
		return refuse("a search gives all replicas the same share; remove batch.shards")
	}
	varied := q.varied()
	for _, key := range q.Fix {
		if err := checkFixed(key); err != nil {
			return err
		}
		if varied[key] != nil {
			return fmt.Errorf("--fix %s and --vary %s: give one of the two", key, key)
		}
	}
	const margin = "machine.memory_margin"
	if varied[margin] != nil || slices.Contains(q.Fix, margin) {
		return fmt.Errorf("--fix or --vary %s: a search has one margin; set it by --margin, such as --margin 3%%",
			margin)
	}
	return nil
}

// checkFixed returns an error if an argument of --fix is not a key.
func checkFixed(key string) error {
	key, value, given := strings.Cut(key, "=")
	switch {
	case given:
		return fmt.Errorf("--fix %s=%s: takes a key without a value; to fix that value, use --set %s=%s --fix %s",
			key, value, key, value, key)
	case setting.IsTable(configs.Config{}, key):
		return fmt.Errorf("--fix %s: is a section, not a key; a search chooses %s", key, strings.Join(Keys(), ", "))
	case !setting.IsKey(configs.Config{}, key):
		return fmt.Errorf("--fix %s: is not a key of a configuration (psim help config); a search chooses %s%s",
			key, strings.Join(Keys(), ", "), nearest.Suggest(key, Keys()))
	}
	return nil
}

// offersOf lists the values that the trainer offers, by key; nil if there is no limit. A
// trainer other than the configured stack is refused: the search would try what one
// program offers at the prices of the other.
func offersOf(c *configs.Config, q Query) (configs.Offers, error) {
	name, stack := q.Trainer, c.Train.Stack
	if name == "" {
		name = stack
	} else if name != Any && stack != "" && stack != "none" && name != stack {
		return nil, fmt.Errorf("--trainer %s and train.stack = %q are two programs; give one of them, or --trainer any",
			name, stack)
	}
	if name == Any || name == "none" || name == "" {
		return nil, nil
	}
	names := []string{Any}
	for _, s := range configs.Stacks() {
		if s.Name == name {
			return s.Offers(), nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("unknown trainer %q; use %s%s",
		name, strings.Join(names, ", "), nearest.Suggest(name, names))
}

// ask notes the values of dimensions that the query fixes or varies.
func (s *Space) ask(q Query) error {
	own, err := s.own()
	if err != nil {
		return err
	}
	varied := q.varied()
	for _, d := range s.dimensions {
		values, asked := varied[d.key]
		fixed := slices.Contains(q.Fix, d.key)
		switch {
		case d.key == "schedule.name" && q.Schedules != nil && (asked || fixed):
			return errors.New("--schedules with --fix or --vary schedule.name: give one of them")
		case fixed:
			values = []string{text(d.at(&own))}
		case d.key == "schedule.name" && q.Schedules != nil:
			values = q.Schedules
		case !asked:
			continue
		}
		if s.asked[d.key], err = s.values(d, values); err != nil {
			return err
		}
	}
	for _, name := range s.asked["schedule.name"] {
		if _, known := s.schedules[name]; !known {
			return fmt.Errorf("unknown schedule %q%s", name, nearest.Suggest(name, schedules.Names()))
		}
	}
	return nil
}

// values parses values of a dimension, and returns them in their usual form.
func (s *Space) values(d dimension, texts []string) (list []string, err error) {
	var p Plan
	for _, v := range texts {
		if d.key == "train.recompute" {
			p.Recompute, err = s.recomputation(v)
		} else if err = assign(d.at(&p), v); err != nil {
			err = fmt.Errorf("%s: %w", d.key, err)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, text(d.at(&p)))
	}
	return list, nil
}

// recomputation parses a value of train.recompute, and returns it in its usual form. It
// refuses modules that the network does not have.
func (s *Space) recomputation(value string) (string, error) {
	c, err := s.config.With("train.recompute=" + value)
	if err != nil {
		return "", err
	}
	if err := c.Train.Check(s.network); err != nil {
		return "", fmt.Errorf("train.%w", err)
	}
	return c.Train.Recompute, nil
}

// own returns the configuration's own plan, whose values can be fixed.
func (s *Space) own() (p Plan, err error) {
	c := s.config
	p.Tensor, p.Stages, p.Data = max(1, c.Parallel.Tensor), max(1, c.Schedule.Stages), max(1, c.Parallel.Data)
	p.Context, p.Expert, p.ExpertTensor = max(1, c.Parallel.Context), max(1, c.Parallel.Expert), c.Parallel.ExpertTensor
	p.Schedule, p.VirtualStages, p.Zero, p.Sequence = c.Schedule.Name, c.PerRank(), c.Parallel.Zero, c.Parallel.Sequence
	p.Recompute, p.Micro, p.Microbatches = c.Train.Recompute, c.Batch.Micro, c.Schedule.Microbatches
	for _, key := range s.fixed {
		if key == "batch.micro" && p.Micro == 0 || key == "schedule.microbatches" && p.Microbatches == 0 {
			samples, err := c.Batch.Samples(p.Data, c.Schedule.Microbatches)
			if err != nil {
				return p, fmt.Errorf("%s: batch.%w", c.Name(), err)
			}
			p.Micro, p.Microbatches = samples[0], len(samples)
		}
	}
	return p, nil
}

// A Query says which plans to search.
type Query struct {
	Devices int
	// Trainer limits schedules and options to those that a stack offers (see
	// configs.Stack); Any does not limit them, "" stands for the configuration's stack.
	Trainer string
	// Schedules limits the schedules; nil allows all but those whose order is searched
	// for.
	Schedules []string
	// Fix lists keys that keep the configuration's value, and Vary restricts keys to
	// values. Keys that are not dimensions become dimensions by Vary.
	Fix  []string
	Vary []rankings.Variation
	// Margin is the share of the memory that a plan must leave free.
	Margin float64
	// Shard is the part of the plans to search.
	Shard rankings.Shard
	// Shared says where the shard shares the steps of its best plans with others.
	Shared Shared
	// Unpredicted leaves a shard's best plans as the search found them: Merge predicts those of all shards.
	Unpredicted bool
	// Rows is the number of best plans wanted; 0 is 20.
	Rows int
	// Points asks for what is known about every plan; there may be millions.
	Points bool
	// Map names the two dimensions of the map; nil leaves the choice to the search.
	Map []string
}

// varied returns the values of the settings that vary, by key.
func (q Query) varied() map[string][]string {
	values := map[string][]string{}
	for _, v := range q.Vary {
		values[v.Key] = v.Values
	}
	return values
}

// variesMachine reports whether plans may have stacks or devices with margins of their own.
func (q Query) variesMachine() bool {
	return slices.ContainsFunc(q.Vary, func(v rankings.Variation) bool {
		return v.Key == "train.stack" || strings.HasPrefix(v.Key, "machine.")
	})
}

const defaultRows = 20
