package configs

import (
	"errors"
	"fmt"
	"slices"

	"psim/internal/units"
)

// The names of what does not split the network: replicas of it, and with fsdpName
// replicas that share out parameters, gradients and the optimizer's state.
const (
	ddpName  = "ddp"
	fsdpName = "fsdp"
)

// settle makes of the schedule's name what follows from it: fsdp is ddp with zero = 3,
// and both have one stage. Where a --set names the schedule, that is said of what the
// file has for another one; what was typed beside the name stays, and may be refused.
func (c *Config) settle(kind work) error {
	name := c.Schedule.Name
	if name != ddpName && name != fsdpName {
		return nil
	}
	if name == fsdpName {
		if kind == byTimes {
			return c.problem("schedule", errors.New(`name = "fsdp": shards the parameters of a network, of which [times] knows none; use [model], or another schedule`))
		}
		if z := c.Parallel.Zero; z != 3 && c.Defined("parallel.zero") && !c.overruled("parallel.zero") {
			return c.problem("parallel", fmt.Errorf(`zero = %d: schedule.name = "fsdp" is ddp with zero = 3; remove zero, or set schedule.name = "ddp"`, z))
		}
		c.Schedule.Name, c.Parallel.Zero = ddpName, 3
	}
	c.dropSplit(name)
	return nil
}

// dropSplit leaves out what the file says of a network that is split.
func (c *Config) dropSplit(name string) {
	split := []string{"stages", "virtual_stages", "partition", "placement", "group", "whole_last"}
	split = slices.DeleteFunc(split, func(key string) bool { return !c.overruled("schedule." + key) })
	own := withDefaults().Schedule
	for _, key := range split {
		c.dropped = append(c.dropped, "schedule."+key)
		switch s := &c.Schedule; key {
		case "stages":
			if s.Stages > 1 {
				c.changes = append(c.changes, fmt.Sprintf("%s does not split the network: 1 stage instead of %d", name, s.Stages))
			}
			s.Stages = own.Stages
		case "virtual_stages":
			s.VirtualStages = own.VirtualStages
		case "partition":
			s.Partition = own.Partition
		case "placement":
			s.Placement = own.Placement
		case "group":
			s.Group = own.Group
		case "whole_last":
			s.WholeLast = own.WholeLast
		}
	}
}

// overruled reports whether a key stands in the file, but the schedule's name, which
// decides of it, was typed, and the key was not.
func (c *Config) overruled(key string) bool {
	typed := func(key string) bool {
		return slices.ContainsFunc(c.sources[1:], func(s *source) bool { return s.defines(key) })
	}
	return c.sources[0].defines(key) && !typed(key) && typed("schedule.name")
}

// scaled keeps the samples of every replica where their number changes (weak
// scaling), and says so. A batch that was typed is the total, and stays.
func (c *Config) scaled(replicas int) (sets []string, change string) {
	was, global := int64(c.Parallel.Data), c.Batch.Global
	typed := slices.ContainsFunc(c.sources[1:], func(s *source) bool { return s.defines("batch.global") })
	switch {
	case global == 0: // every replica has so many microbatches of so many
		return nil, ""
	case typed:
		return nil, fmt.Sprintf(", which share batch.global = %d", global)
	case global%was != 0: // building will say so
		return nil, ""
	}
	each := global / was
	total := each * int64(replicas)
	return []string{fmt.Sprintf("batch.global=%d", total)},
		fmt.Sprintf(", of %s each as before: batch.global = %d instead of %d", units.Plural(int(each), "sample"), total, global)
}
