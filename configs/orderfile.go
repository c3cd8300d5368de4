package configs

import (
	"bytes"
	"fmt"
	"path/filepath"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// ordered finds the schedule to build: the catalog's of that name, or that of
// schedule.file, whose size then completes the experiment.
func (c *Config) ordered() (*Config, schedules.Schedule, error) {
	if c.Schedule.File == "" {
		schedule, err := findSchedule(c.Schedule.Name)
		if err != nil {
			return nil, schedule, c.problem("schedule", c.unknownSchedule())
		}
		return c, schedule, nil
	}
	for _, key := range []string{"placement", "group"} {
		if c.Defined("schedule." + key) {
			return nil, schedules.Schedule{}, c.problem("schedule", fmt.Errorf("%s: has no meaning beside file, which says where and in which order all is done; remove %s", key, key))
		}
	}
	schedule, shape, err := c.readOrder()
	if err != nil {
		return nil, schedule, c.problem("schedule", fmt.Errorf("file = %q: %w", c.Schedule.File, err))
	}
	filled := *c
	for _, e := range []struct {
		key  string
		into *int
		has  int
	}{
		{"stages", &filled.Schedule.Stages, shape.Ranks},
		{"microbatches", &filled.Schedule.Microbatches, shape.Microbatches},
		{"virtual_stages", &filled.Schedule.VirtualStages, shape.Virtual},
	} {
		if c.Defined("schedule."+e.key) && *e.into != e.has {
			return nil, schedule, c.problem("schedule", fmt.Errorf("%s = %d: %s has %d; remove %s, which follows from the file", e.key, *e.into, schedule.Name, e.has, e.key))
		}
		*e.into = e.has
	}
	return &filled, schedule, nil
}

func (c *Config) readOrder() (schedules.Schedule, graph.Shape, error) {
	data, err := c.readBeside(c.Schedule.File, order.MaxFile)
	if err != nil {
		return schedules.Schedule{}, graph.Shape{}, err
	}
	o, err := order.ReadCSV(bytes.NewReader(data))
	if err != nil {
		return schedules.Schedule{}, graph.Shape{}, err
	}
	return schedules.Custom(filepath.Base(c.Schedule.File), o)
}
