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
	return p.settings(make([]string, 0, len(p.space.dimensions)+len(p.Extra)+1), func(string) bool { return true })
}

// settings appends those settings of a plan whose key is wanted.
func (p *Plan) settings(sets []string, wanted func(key string) bool) []string {
	s := p.space
	for i := range s.dimensions {
		d := &s.dimensions[i]
		if wanted(d.key) && (d.implied == nil || !d.implied(p) || s.config.Defined(d.key)) {
			sets = append(sets, s.setting(d.key, text(d.at(p))))
		}
	}
	for _, set := range p.Extra {
		if key, _, _ := strings.Cut(set, "="); wanted(key) {
			sets = append(sets, set)
		}
	}
	add := func(when bool, key string, value any) {
		if when && wanted(key) && !slices.Contains(s.fixed, key) {
			sets = append(sets, fmt.Sprintf("%s=%v", key, value))
		}
	}
	c, split := s.config, p.Schedule != "ddp" // ddp ignores the file's settings of stages
	add(c.Batch.Global == 0, "batch.global", s.Global)
	add(split && c.Schedule.Group != 0, "schedule.group", 0)
	by := c.Schedule.Partition
	balanced := by.Layers == nil && (by.Rule == "" || by.Rule == schedules.BalancedPartition)
	add(split && !balanced, "schedule.partition", schedules.BalancedPartition)
	add(split && c.Schedule.FirstBlocks > 0, "schedule.first_blocks", 0)
	add(split && c.Schedule.LastBlocks > 0, "schedule.last_blocks", 0)
	add(c.Parallel.Gather == parallel.GatherTensor && p.Zero < 3, "parallel.gather", parallel.GatherUnit)
	add(c.Parallel.Unit == parallel.UnitStage && p.Zero < 3, "parallel.gather_unit", parallel.UnitBlock)
	add(c.Parallel.Simplified && p.Zero < 3, "parallel.simplified", false)
	add(s.marginDiffers, "machine.memory_margin", s.margin)
	return sets
}

// varied lists those of its settings whose key varies.
func (p *Plan) varied(keys map[string][]string) []string {
	if len(keys) == 0 {
		return nil
	}
	return slices.Clip(p.settings(nil, func(key string) bool { return keys[key] != nil }))
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
