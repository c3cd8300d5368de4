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
	p.expertGroups(g)
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

// AddGroups makes the groups of a graph as [Pipeline.Graph] does. It returns that of a rank of the first replica over which gradients of
// experts travel, or of all else.
func (p Pipeline) AddGroups(g *graph.Graph) (of func(rank int32, expert bool) int32) {
	p.fill()
	made := p.groups(g)
	return func(rank int32, expert bool) int32 {
		if expert {
			return g.Experts.SumGroup(0, rank, int32(p.Shape.Ranks))
		}
		return made.stage[rank]
	}
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
				Peer: b.group(b.Sync.expert(s, part)), Bytes: bytes,
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

// leaving counts the tasks with which the gradients of a stage leave: a sum per
// bucket, and where these cut the backward a slice of it for each but the first.
func (p *Pipeline) leaving(stage int32) int64 {
	buckets := int64(len(p.Sync.Buckets[stage]))
	if p.Sync.Overlap && p.Sync.Units == nil && buckets > 0 && !p.divided(stage) {
		return 2*buckets - 1
	}
	return buckets
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
		Stage: a.Stage, Microbatch: microbatch, Peer: b.group(b.Sync.expert(a.Stage, bucket)), Bytes: b.Sync.Buckets[a.Stage][bucket],
	})
}

// group finds that over which gradients or parameters travel: of experts, or of all else.
func (b *rankBuilder) group(expert bool) int32 {
	if expert {
		return b.graph.Experts.SumGroup(int32(b.replica), int32(b.pipelineRank), int32(b.Shape.Ranks))
	}
	return b.groups.stage[b.pipelineRank]
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
	shares := b.Placement.Second != nil && b.Sync.active(b.Shape) && b.Sync.Sharded
	if !shares {
		b.sumTied()
	}
	if b.Sync.active(b.Shape) {
		b.sumRest()
		if shares {
			b.sumTied()
		}
		b.average()
	}
	if !b.Optimizer || b.Stashing {
		return
	}
	b.add(graph.Task{Kind: graph.Optimizer, Stream: b.compute, Stage: graph.None, Microbatch: graph.None, Peer: graph.None})
	if b.Sync.active(b.Shape) && b.Sync.Sharded && b.Sync.Units == nil && b.Sync.Ahead == nil {
		b.gathersUpdated()
	}
}

// sumTied adds the sums of what several ranks of the replica hold; of second copies whose
// optimizer is sharded, these are sums of shares.
func (b *rankBuilder) sumTied() {
	for i, t := range b.Tied {
		if ranks := b.tiedRanks(t); len(ranks) > 1 && slices.Contains(ranks, int32(b.pipelineRank)) {
			b.add(graph.Task{
				Kind: graph.AllReduce, Stream: b.stream(&b.gradients, "gradients"), Stage: graph.None, Microbatch: graph.None,
				Peer: b.groups.tied[b.replica][i], Bytes: t.Bytes,
			})
		}
	}
}

// sumRest adds the sums that have not left early.
func (b *rankBuilder) sumRest() {
	if b.Sync.Overlap || b.Sync.EveryMicrobatch {
		return
	}
	for _, s := range b.stagesOn[b.pipelineRank] {
		for bucket := range b.Sync.Buckets[s] {
			b.sum(order.Action{Stage: s}, bucket)
		}
	}
}

// average adds the division by the number of replicas.
func (b *rankBuilder) average() {
	b.add(graph.Task{Kind: graph.Average, Stream: b.compute, Stage: graph.None, Microbatch: graph.None, Peer: graph.None, Bytes: b.averaged(b.stagesOn[b.pipelineRank])})
}

// averaged counts the bytes of summed gradients that a rank with some stages divides.
func (p *Pipeline) averaged(stages []int32) int64 {
	var shares, all, experts int64
	for _, s := range stages {
		for bucket, size := range p.Sync.Buckets[s] {
			if p.Sync.expert(s, bucket) {
				experts += size
			} else {
				all += size
			}
		}
		if p.Sync.Units != nil {
			shares += p.Sync.Units[s].Share
		}
	}
	switch {
	case p.Sync.Units != nil:
		return shares
	case p.Sync.Sharded: // each replica has its share of the sum
		return all/int64(p.Sync.members(p.Shape)) + experts/int64(p.Shape.Replicas/max(1, p.ExpertSpan)*max(1, p.Sync.ExpertWidth))
	}
	return all + experts
}

// gathersUpdated adds the gathers of what a sharded optimizer has updated: of a stage's
// parameters, and of its experts' beside them.
func (b *rankBuilder) gathersUpdated() {
	gather := func(stage int32, part uint16, group int32, bytes int64) {
		b.add(graph.Task{
			Kind: graph.AllGather, Part: part, Stream: b.stream(&b.gradients, "gradients"), Stage: stage, Microbatch: graph.None,
			Peer: group, Bytes: bytes,
		})
	}
	for _, s := range b.stagesOn[b.pipelineRank] {
		gather(s, 0, b.group(false), b.Sync.Parameters[s])
		if b.Sync.expertParameters(s) > 0 {
			gather(s, 1, b.group(true), b.Sync.ExpertParameters[s])
		}
	}
}
