package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// groups indexes Graph.Groups.
type groups struct {
	stage  []int32   // by pipeline rank: the same rank of all replicas
	gather []int32   // the same ranks again, for the gathering of units
	tied   [][]int32 // by replica and tied parameter
}

// groups makes a group of every pipeline rank over the replicas, and one per
// replica and tied parameter.
func (p *Pipeline) groups(g *graph.Graph) groups {
	var made groups
	if p.Sync.active(p.Shape) {
		for r := range p.Shape.Ranks {
			var ranks []int32
			for d := range p.Shape.Replicas {
				ranks = append(ranks, int32(d*p.Shape.Ranks+r))
			}
			made.stage = append(made.stage, g.AddWide(ranks, p.Sync.width()))
			if p.Sync.Units != nil {
				made.gather = append(made.gather, g.AddWide(ranks, p.Sync.width()))
			}
		}
	}
	made.tied = make([][]int32, p.Shape.Replicas)
	for d := range made.tied {
		for _, t := range p.Tied {
			ranks := p.tiedRanks(t)
			for i := range ranks {
				ranks[i] += int32(d * p.Shape.Ranks)
			}
			made.tied[d] = append(made.tied[d], g.AddGroup(ranks))
		}
	}
	return made
}

// tiedRanks lists the distinct ranks of a tied parameter's stages. On a
// single rank there is one copy and nothing to sum.
func (p *Pipeline) tiedRanks(t Tied) []int32 {
	var ranks []int32
	for _, s := range t.Stages {
		if r := p.Placement.First[s]; !slices.Contains(ranks, r) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// broadcast adds what brings the first replica's parameters to the others.
func (b *rankBuilder) broadcast() {
	if b.Sync.Broadcast == nil || !b.Sync.active(b.Shape) {
		return
	}
	for _, s := range slices.Backward(b.stagesOn[b.pipelineRank]) {
		for part, bytes := range b.Sync.Broadcast[s] {
			b.add(graph.Task{
				Kind: graph.Broadcast, Part: uint16(part), Stream: b.stream(&b.gradients, "gradients"), Stage: s, Microbatch: graph.None,
				Peer: b.groups.stage[b.pipelineRank], Bytes: bytes,
			})
		}
	}
}

// leaves reports whether gradients leave with an action, the i-th of its
// rank, and not only after the last: with every backward, or with the one that
// completes them if they leave early.
func (b *rankBuilder) leaves(i int, a order.Action) bool {
	return b.sums(a.Kind, a.Stage) && (b.Sync.EveryMicrobatch || b.Sync.Overlap && b.last[b.Placement.Copy(a.Stage, a.Microbatch)] == i)
}

// sums reports whether tasks of a kind and stage make gradients that are summed over
// replicas.
func (p *Pipeline) sums(k graph.Kind, stage int32) bool {
	return makesGradients(k) && p.Sync.active(p.Shape) && len(p.Sync.Buckets[stage]) > 0
}

// sum adds the collective of one gradient bucket: with units of an action's
// microbatch, otherwise of the whole step.
func (b *rankBuilder) sum(a order.Action, bucket int) {
	microbatch := int32(graph.None)
	if b.Sync.Units != nil {
		microbatch = a.Microbatch
	}
	b.add(graph.Task{
		Kind: b.Sync.Kind(), Part: uint16(bucket), Stream: b.stream(&b.gradients, "gradients"),
		Stage: a.Stage, Microbatch: microbatch, Peer: b.groups.stage[b.pipelineRank], Bytes: b.Sync.Buckets[a.Stage][bucket],
	})
}

// gathers lists the sizes of the parameters that an action needs and that are
// sharded. A weight gradient needs none.
func (p *Pipeline) gathers(a order.Action) []int64 {
	if p.Sync.Units == nil || !p.Sync.active(p.Shape) || a.Kind == graph.WeightGradient {
		return nil
	}
	return p.Sync.Units[a.Stage].Gather
}

// gather adds the all-gathers of the parameters that an action needs.
func (b *rankBuilder) gather(a order.Action) {
	for part, bytes := range b.gathers(a) {
		b.add(graph.Task{
			Kind: graph.AllGather, Part: uint16(part), Stream: b.stream(&b.parameters, "parameters"), Stage: a.Stage, Microbatch: a.Microbatch,
			Peer: b.groups.gather[b.pipelineRank], Bytes: bytes,
		})
	}
}

// tail adds what follows the last backward of a rank: tied gradients, the
// sums over replicas that have not left early, the average, the optimizer,
// and the gathering of updated parameters.
func (b *rankBuilder) tail() {
	for i, t := range b.Tied {
		if ranks := b.tiedRanks(t); len(ranks) > 1 && slices.Contains(ranks, int32(b.pipelineRank)) {
			b.add(graph.Task{
				Kind: graph.AllReduce, Stream: b.stream(&b.gradients, "gradients"), Stage: graph.None, Microbatch: graph.None,
				Peer: b.groups.tied[b.replica][i], Bytes: t.Bytes,
			})
		}
	}
	if b.Sync.active(b.Shape) {
		b.average()
	}
	if !b.Optimizer || b.Stashing {
		return
	}
	b.add(graph.Task{Kind: graph.Optimizer, Stream: b.compute, Stage: graph.None, Microbatch: graph.None, Peer: graph.None})
	if !b.Sync.active(b.Shape) || !b.Sync.Sharded || b.Sync.Units != nil || b.Sync.Ahead != nil {
		return
	}
	for _, s := range b.stagesOn[b.pipelineRank] {
		b.add(graph.Task{
			Kind: graph.AllGather, Stream: b.stream(&b.gradients, "gradients"), Stage: s, Microbatch: graph.None,
			Peer: b.groups.stage[b.pipelineRank], Bytes: b.Sync.Parameters[s],
		})
	}
}

// average adds the sums that have not left early, and the division by the number
// of replicas.
func (b *rankBuilder) average() {
	var bytes, shares int64
	for _, s := range b.stagesOn[b.pipelineRank] {
		for bucket, size := range b.Sync.Buckets[s] {
			bytes += size
			if !b.Sync.Overlap && !b.Sync.EveryMicrobatch {
				b.sum(order.Action{Stage: s}, bucket)
			}
		}
		if b.Sync.Units != nil {
			shares += b.Sync.Units[s].Share
		}
	}
	switch {
	case b.Sync.Units != nil:
		bytes = shares
	case b.Sync.Sharded:
		bytes /= int64(b.Sync.members(b.Shape)) // each has its share of the sum
	}
	b.add(graph.Task{Kind: graph.Average, Stream: b.compute, Stage: graph.None, Microbatch: graph.None, Peer: graph.None, Bytes: bytes})
}
