package plans

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/internal/units"
	"psim/schedules"
	"psim/schedules/graph"
)

// Combination holds the settings that make a plan to try, or why there are none.
type Combination struct {
	Schedule string
	PerRank  int
	Sets     []string
	Err      error
}

// Combine lists the settings of all plans: the configuration's own shape with
// each schedule, number of microbatches and number of stages per rank.
func Combine(c *configs.Config) []Combination {
	var list []Combination
	for _, s := range candidates(c) {
		for _, microbatches := range shares(c) {
			for _, virtual := range perRanks(c) {
				fixed := s.PerRank > 0 && !s.Virtual
				if virtual < s.PerRank || fixed && virtual != s.PerRank || virtual > 1 && s.PerRank == 0 && !s.Virtual {
					continue
				}
				times, ok := cut(c, virtual)
				if !ok {
					list = append(list, Combination{Schedule: s.Name, PerRank: virtual, Err: errUncut})
					continue
				}
				sets := append([]string{"schedule.name=" + s.Name}, microbatches...)
				if virtual > 1 && !fixed {
					sets = append(sets, fmt.Sprintf("schedule.virtual_stages=%d", virtual))
				} else if c.Defined("schedule.virtual_stages") {
					sets = append(sets, "schedule.virtual_stages=1")
				}
				if c.Defined("schedule.group") && (!s.Grouped || virtual == 1) {
					sets = append(sets, "schedule.group=0")
				}
				if n := len(c.Schedule.Partition.Layers); n > 0 && n != c.Schedule.Stages*virtual {
					sets = append(sets, "schedule.partition=balanced")
				}
				list = append(list, Combination{Schedule: s.Name, PerRank: virtual, Sets: append(sets, times...)})
			}
		}
	}
	return list
}

var errUncut = errors.New("holds several stages per rank, and [times] or activations that differ from stage to stage, or do not divide, cannot be cut into them")

// perRanks lists the numbers of stages per rank to try. A single rank has nothing to
// gain from several, but may be configured so.
func perRanks(c *configs.Config) []int {
	own := c.PerRank()
	if c.Schedule.Stages <= 1 {
		return slices.Compact([]int{own, 1})
	}
	list := []int{1, 2, 4}
	if !slices.Contains(list, own) {
		list = append(list, own)
	}
	return list
}

// candidates lists the schedules to try: all that spread stages over ranks, or
// without ranks the configuration's own. With [times], which price a stage of one
// copy, those that hold every stage twice do not do the same work. One that updates
// without waiting for the whole batch trains something else, and is tried only if
// it is the configuration's own.
func candidates(c *configs.Config) []schedules.Schedule {
	if c.Schedule.Stages <= 1 {
		all := append(schedules.Catalog(), configs.Searched()...)
		if i := slices.IndexFunc(all, func(s schedules.Schedule) bool { return s.Name == c.Schedule.Name }); i >= 0 {
			return all[i : i+1]
		}
		return []schedules.Schedule{{Name: c.Schedule.Name, Virtual: true}} // building says that there is none
	}
	shape := graph.Shape{Ranks: c.Schedule.Stages, Microbatches: 1}
	var list []schedules.Schedule
	for _, s := range schedules.Catalog() {
		own := !s.Stashing || s.Name == c.Schedule.Name
		if own && s.Pipelined && (c.Defined("model") || s.Placement(shape).Second == nil) {
			list = append(list, s)
		}
	}
	return append(list, configs.Searched()...)
}

// shares lists the ways to cut a replica's share of the batch into equal
// microbatches. With [times], which price a microbatch as it is, there is one.
func shares(c *configs.Config) [][]string {
	const most = 1 << 12
	perReplica := c.Batch.Global / int64(max(1, c.Parallel.Data))
	if !c.Defined("model") || perReplica < 1 {
		return [][]string{nil}
	}
	var list [][]string
	for n := int64(1); n <= min(perReplica, most); n++ {
		if perReplica%n != 0 {
			continue
		}
		sets := []string{fmt.Sprintf("schedule.microbatches=%d", n)}
		if c.Defined("batch.micro") {
			sets = append(sets, fmt.Sprintf("batch.micro=%d", perReplica/n))
		}
		list = append(list, sets)
	}
	return list
}

// cut makes the settings with which every rank does the same work in another number of
// stages: [times] and [memory] count for one stage, of which there are then more or
// fewer. It is false where that is not the same for all stages, or leaves parts of
// nanoseconds or bytes.
func cut(c *configs.Config, perRank int) (sets []string, ok bool) {
	own := c.PerRank()
	if c.Defined("model") || perRank == own {
		return nil, true
	}
	for _, t := range costmodel.PassTimes(c.Times) {
		if !t.Table.Set() {
			continue
		}
		one, same := t.Table.Same()
		all := one * time.Duration(own)
		if !same || all%time.Duration(perRank) != 0 {
			return nil, false
		}
		sets = append(sets, "times."+t.Key+"="+units.Duration(all/time.Duration(perRank)).String())
	}
	for _, b := range []struct {
		key   string
		bytes units.Bytes
	}{
		{"activation", c.Memory.Activation}, {"freed_by_input_gradient", c.Memory.FreedByInputGradient},
	} {
		all := b.bytes * units.Bytes(own)
		if all%units.Bytes(perRank) != 0 {
			return nil, false
		}
		if b.bytes > 0 {
			sets = append(sets, "memory."+b.key+"="+(all/units.Bytes(perRank)).String())
		}
	}
	return sets, true
}
