package configs

import (
	"fmt"
	"slices"

	"psim/internal/units"
)

// The schedules that do not split the network into stages: ddp has replicas, and fsdp has replicas
// that shard parameters, gradients and the optimizer's state.
const (
	ddpName  = "ddp"
	fsdpName = "fsdp"
)

// settle applies the consequences of the schedule's name: fsdp is ddp with zero = 3, and both have
// one stage. If a --set names the schedule, settle drops keys of the file that belong to another
// schedule. Keys that are also given by --set stay, and may be refused.
func (c *Config) settle(kind work) error {
	name := c.Schedule.Name
	if name != ddpName && name != fsdpName {
		return nil
	}
	if name == fsdpName {
		if kind == byTimes {
			return c.problemf("schedule", `name = "fsdp": shards the parameters of a network, and [times] has no `+
				`network; use [model], or another schedule`)
		}
		if z := c.Parallel.Zero; z != 3 && c.Defined("parallel.zero") && !c.overruled("parallel.zero") {
			return c.problemf("parallel", `zero = %d: schedule.name = "fsdp" is ddp with zero = 3; remove zero, `+
				`or set schedule.name = "ddp"`, z)
		}
		c.Schedule.Name, c.Parallel.Zero = ddpName, 3
	}
	c.dropSplit(name)
	return nil
}

// dropSplit drops the keys of the file about splitting the network.
func (c *Config) dropSplit(name string) {
	split := []string{"stages", "virtual_stages", "partition", "placement", "group", "whole_last"}
	split = slices.DeleteFunc(split, func(key string) bool { return !c.overruled("schedule." + key) })
	own := withDefaults().Schedule
	for _, key := range split {
		c.dropped = append(c.dropped, "schedule."+key)
		switch s := &c.Schedule; key {
		case "stages":
			if s.Stages > 1 {
				c.changes = append(c.changes, fmt.Sprintf("%s does not split the network: 1 stage instead of %d",
					name, s.Stages))
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

// overruled reports whether the file gives a key, and --set gives the name of the schedule, which
// decides the key, but not the key itself.
func (c *Config) overruled(key string) bool {
	typed := func(key string) bool {
		return slices.ContainsFunc(c.sources[1:], func(s *source) bool { return s.defines(key) })
	}
	return c.sources[0].defines(key) && !typed(key) && typed("schedule.name")
}

// Left returns the experiment of the last step of an epoch, if steps of a built experiment leave fewer
// samples for it. Microbatches keep their size, so that there may be fewer; of replicas, those with
// most samples count. It returns nil if nothing is left over, or if that makes no experiment.
func (c *Config) Left(of *Experiment) *Config {
	replicas := int64(max(1, c.Parallel.Data))
	if of.DataSet == 0 || of.DataSet%of.Samples == 0 {
		return nil
	}
	each := (of.DataSet%of.Samples + replicas - 1) / replicas
	sets := []string{fmt.Sprint("batch.global=", each*replicas)}
	if c.Batch.Shards == nil {
		whole, err := c.Batch.Samples(int(replicas), c.Schedule.Microbatches)
		if err != nil {
			return nil
		}
		micro := min(whole[0], each)
		count := (each + micro - 1) / micro
		sets = append(sets, fmt.Sprint("batch.micro=", micro), fmt.Sprint("schedule.microbatches=", count))
	}
	left, err := c.With(sets...)
	if err != nil {
		return nil
	}
	return left
}

// scaled returns the settings that keep the samples of every replica when the number of replicas
// changes (weak scaling), and describes the change. A batch given by --set is a total, and stays.
func (c *Config) scaled(replicas int) (sets []string, change string) {
	was, global := int64(c.Parallel.Data), c.Batch.Global
	typed := slices.ContainsFunc(c.sources[1:], func(s *source) bool { return s.defines("batch.global") })
	switch {
	case global == 0: // batch.micro and schedule.microbatches count for each replica
		return nil, ""
	case typed:
		return nil, fmt.Sprintf(", which share batch.global = %d", global)
	case global%was != 0: // building reports the error
		return nil, ""
	}
	each := global / was
	total := each * int64(replicas)
	return []string{fmt.Sprintf("batch.global=%d", total)},
		fmt.Sprintf(", of %s each as before: batch.global = %d instead of %d", units.Plural(int(each), "sample"),
			total, global)
}
