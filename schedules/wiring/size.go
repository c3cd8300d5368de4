package wiring

import (
	"fmt"

	"psim/schedules/graph"
)

// size counts the tasks of the graph before they are added, and refuses more than
// [graph.MaxTasks].
func (b *Builder) size() (int64, error) {
	b.count()
	var n int64
	for s := range b.Placement.Stages() {
		n += b.sizeOf(int32(s), int32(s))
		if b.Placement.Second != nil {
			n += b.sizeOf(int32(s), int32(b.Placement.Stages()+s))
		}
	}
	ranks := int64(b.Shape.Ranks)
	if b.Optimizer && !b.Stashing {
		n += ranks
	}
	if b.Sync.active(b.Shape) {
		n += ranks // averages
	}
	if b.Loop != nil {
		n += ranks // zeroing
	}
	for _, t := range b.Tied {
		if ranks := b.tiedRanks(t); len(ranks) > 1 {
			n += int64(len(ranks)) * b.perCollective()
		}
	}
	if !b.Folded {
		n *= int64(b.Shape.Replicas)
	}
	if n > graph.MaxTasks {
		return n, fmt.Errorf("the graph would have %d tasks; at most %d are supported: "+
			"use fewer microbatches, stages or replicas", n, graph.MaxTasks)
	}
	return n, nil
}

// count counts the actions on every copy of a stage, and finds the last action that makes gradients.
func (b *Builder) count() {
	copies := b.copies()
	b.last = nones(b.last, copies)
	for k := range b.counts {
		b.counts[k] = grown(b.counts[k], copies)
		clear(b.counts[k])
	}
	for _, actions := range b.Order {
		for i := range actions {
			a := &actions[i]
			on := b.copyOf(a)
			b.counts[a.Kind][on]++
			if makesGradients(a.Kind) {
				b.last[on] = int32(i)
			}
		}
	}
}

// sizeOf counts the tasks of a copy of a stage: the tasks of its actions, and the tasks that a step
// has once for the parameters and gradients of the stage.
func (b *Builder) sizeOf(stage, on int32) (n int64) {
	for k := range graph.WeightGradient + 1 {
		n += int64(b.counts[k][on]) * b.tasksOf(k, stage)
	}
	s := &b.Sync
	if !s.active(b.Shape) {
		return n
	}
	if !s.EveryMicrobatch {
		n += b.sumTasks(stage)
	}
	switch {
	case s.Ahead != nil:
		pieces := int64(len(s.Ahead[stage]))
		n += pieces * b.perCollective()
		if !b.divided(stage) {
			n += max(0, pieces-1) // parts of the first forward
		}
	case b.gathersUpdated():
		n += int64(len(s.Parameters[stage])) * b.perCollective()
	}
	if s.Broadcast != nil {
		n += int64(len(s.Broadcast[stage])) * b.perCollective()
	}
	return n
}

// tasksOf counts the tasks that every action of a kind has: the action itself, its message and
// its update, and what is gathered before it or summed after it.
func (p *Pipeline) tasksOf(k graph.Kind, stage int32) int64 {
	n := int64(1)
	if p.sends(k, stage) {
		n++
	}
	if p.Stashing && p.Optimizer && makesGradients(k) {
		n++
	}
	if p.makesLoss(k, stage) {
		n++
	}
	n += p.copiesToHost(k, stage) + p.exchanging(k, stage) + int64(len(p.gathers(k, stage)))*p.perCollective()
	if p.Sync.EveryMicrobatch && p.makesSums(k, stage) {
		n += p.sumTasks(stage)
	}
	return n
}

// sends reports whether the result of an action goes to another rank.
func (p *Pipeline) sends(k graph.Kind, stage int32) bool {
	s := int(stage)
	switch k {
	case graph.WeightGradient:
		return false
	case graph.Forward:
		return s < p.Placement.Stages()-1 && !p.Placement.Together(s, s+1)
	}
	return s > 0 && !p.Placement.Together(s-1, s)
}
