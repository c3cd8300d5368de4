package plans

import (
	"errors"
	"fmt"
	"slices"

	"psim/internal/nearest"
	"psim/schedules"
)

// ask notes the values that are asked for.
func (s *Space) ask(q Query) error {
	own, err := s.own()
	if err != nil {
		return err
	}
	for _, d := range s.dimensions {
		values, asked := q.Vary[d.key]
		fixed := slices.Contains(q.Fix, d.key)
		switch {
		case d.key == "schedule.name" && q.Schedules != nil && (asked || fixed):
			return errors.New("schedules are given twice; give them once")
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

// values reads those of a dimension.
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

// recomputation reads one that is asked for, in its one form. It refuses what the network
// has not.
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

// own reads the plan that the configuration is, for the values that are fixed.
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
