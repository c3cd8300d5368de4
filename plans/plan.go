package plans

import (
	"fmt"
	"slices"
	"strings"

	"psim/configs"
	"psim/configs/parallel"
	"psim/results/rankings"
	"psim/schedules"
)

// A Plan has one value for every dimension, and settings of other keys that vary.
type Plan struct {
	rankings.PlanShape
	Extra []string // KEY=VALUE
	space *Space
}

// Compare orders plans by their settings.
func (p *Plan) Compare(q *Plan) int { return slices.Compare(p.Set(), q.Set()) }

// Set writes a plan as settings for --set: all dimensions, and settings that replace
// values of the configuration which conflict with them.
func (p *Plan) Set() []string {
	s := p.space
	sets := make([]string, 0, len(s.dimensions)+len(p.Extra)+1)
	for i := range s.dimensions {
		if d := &s.dimensions[i]; d.implied == nil || !d.implied(p) || s.config.Defined(d.key) {
			sets = append(sets, s.setting(d.key, text(d.at(p))))
		}
	}
	sets = append(sets, p.Extra...)
	add := func(when bool, set string) {
		if key, _, _ := strings.Cut(set, "="); when && !slices.Contains(s.fixed, key) {
			sets = append(sets, set)
		}
	}
	c, split := s.config, p.Schedule != "ddp" // ddp ignores the file's settings of stages
	add(c.Batch.Global == 0, fmt.Sprintf("batch.global=%d", s.Global))
	add(split && c.Schedule.Group != 0, "schedule.group=0")
	by := c.Schedule.Partition
	balanced := by.Layers == nil && (by.Rule == "" || by.Rule == schedules.BalancedPartition)
	add(split && !balanced, "schedule.partition=balanced")
	add(split && c.Schedule.FirstBlocks > 0, "schedule.first_blocks=0")
	add(split && c.Schedule.LastBlocks > 0, "schedule.last_blocks=0")
	add(c.Parallel.Gather == parallel.GatherTensor && p.Zero < 3, "parallel.gather=unit")
	add(c.Parallel.Unit == parallel.UnitStage && p.Zero < 3, "parallel.gather_unit=block")
	add(c.Parallel.Simplified && p.Zero < 3, "parallel.simplified=false")
	add(s.marginDiffers, fmt.Sprintf("machine.memory_margin=%v", s.margin))
	return sets
}

// varied lists those of its settings whose key varies.
func (p *Plan) varied(keys map[string][]string) (sets []string) {
	if len(keys) == 0 {
		return nil
	}
	for _, set := range p.Set() {
		if key, _, _ := strings.Cut(set, "="); keys[key] != nil {
			sets = append(sets, set)
		}
	}
	return slices.Clip(sets)
}

// setting writes KEY=VALUE. All plans share one text for it, as there may be millions.
func (s *Space) setting(key, value string) string {
	if known, ok := s.texts.Load([2]string{key, value}); ok {
		return known.(string)
	}
	known, _ := s.texts.LoadOrStore([2]string{key, value}, key+"="+value)
	return known.(string)
}

// divide returns a function that gives a configuration the values of a plan.
func (p *Plan) divide(s *Space) func(*configs.Config) {
	return func(c *configs.Config) {
		c.Parallel.Tensor, c.Parallel.Data, c.Parallel.Zero, c.Parallel.Sequence = p.Tensor, p.Data, p.Zero, p.Sequence
		c.Parallel.Context, c.Parallel.Expert, c.Parallel.ExpertTensor = p.Context, p.Expert, p.ExpertTensor
		c.Schedule.Name, c.Schedule.Stages, c.Schedule.VirtualStages = p.Schedule, p.Stages, p.VirtualStages
		c.Schedule.Microbatches, c.Batch.Micro, c.Batch.Global = p.Microbatches, p.Micro, s.Global
		c.Train.Recompute = p.Recompute
		if !slices.Contains(s.fixed, "schedule.group") {
			c.Schedule.Group = 0
		}
		if !slices.Contains(s.fixed, "schedule.partition") {
			c.Schedule.Partition.Layers, c.Schedule.Partition.Rule = nil, ""
			c.Schedule.FirstBlocks, c.Schedule.LastBlocks = 0, 0
		}
		if p.Zero < 3 {
			c.Parallel.Gather, c.Parallel.Unit, c.Parallel.Simplified = "", "", false
		}
	}
}
