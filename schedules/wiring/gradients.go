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

// makeGroups makes a group of every pipeline rank over the replicas, and one per
// replica and tied parameter.
func (p *Pipeline) makeGroups(g *graph.Graph) groups {
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
	made := p.makeGroups(g)
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
	for _, s := range slices.Backward(b.stagesOn[b.rank]) {
		for part, bytes := range b.Sync.Broadcast[s] {
			b.broadcasted = b.addSingle(graph.Task{
				Kind: graph.Broadcast, Part: uint16(part), Stream: b.open(&b.gradients, "gradients"), Stage: s, Microbatch: graph.None,
				Peer: b.group(b.Sync.isExpert(s, part)), Bytes: bytes,
			})
		}
	}
}

// leavesEarly reports whether gradients leave before the end of the step.
func (p *Pipeline) leavesEarly() bool {
	return (p.Sync.Overlap || p.Sync.EveryMicrobatch) && p.Sync.active(p.Shape)
}

// leaves reports whether gradients leave with an action, the i-th of its
// rank, and not only after the last: with every backward, or with the one that
// completes them if they leave early.
func (b *rankBuilder) leaves(i int, a order.Action) bool {
	return b.makesSums(a.Kind, a.Stage) && (b.Sync.EveryMicrobatch || b.Sync.Overlap && b.last[b.copyOf(&a)] == int32(i))
}

// sumTasks counts the tasks with which the gradients of a stage leave: a sum per
// bucket, and where these cut the backward a slice of it for each but the first.
func (p *Pipeline) sumTasks(stage int32) int64 {
	buckets := int64(len(p.Sync.Buckets[stage]))
	if p.Sync.Overlap && p.Sync.Units == nil && buckets > 0 && !p.divided(stage) {
		return 2*buckets - 1
	}
	return buckets
}

// sums reports whether tasks of a kind and stage make gradients that are summed over
// replicas.
func (p *Pipeline) makesSums(k graph.Kind, stage int32) bool {
	return makesGradients(k) && p.Sync.active(p.Shape) && len(p.Sync.Buckets[stage]) > 0
}

// sum adds the collective of one gradient bucket of a copy of a stage: with units of a
// microbatch, otherwise of the whole step.
func (b *rankBuilder) sum(stage, on int32, bucket int, microbatch int32) {
	if b.Sync.Units == nil {
		microbatch = graph.None
	}
	stream, class := b.open(&b.gradients, "gradients"), b.entry(buckets, on, 0)
	if *class == graph.None {
		*class = int32(len(b.graph.Classes))
		for k, bytes := range b.Sync.Buckets[stage] {
			b.add(graph.Task{
				Kind: b.Sync.Kind(), Part: uint16(k), Rank: b.rank, Stream: stream,
				Stage: stage, Microbatch: microbatch, Peer: b.group(b.Sync.isExpert(stage, k)), Bytes: bytes,
			}, 1)
		}
	}
	b.closing = b.graph.Put(*class+int32(bucket), stream, microbatch)
	b.graph.Wait(b.closing, b.computed)
	if bucket == 0 {
		b.summed[0] = b.summed[1]
	}
	b.summed[1] = b.closing
}

// group finds that over which gradients or parameters travel: of experts, or of all else.
func (b *rankBuilder) group(expert bool) int32 {
	if expert {
		return b.graph.Experts.SumGroup(0, b.rank, int32(b.Shape.Ranks))
	}
	return b.groups.stage[b.rank]
}

// gathers lists the sizes of the parameters that an action needs and that are
// sharded. A weight gradient needs none.
func (p *Pipeline) gathers(k graph.Kind, stage int32) []int64 {
	if p.Sync.Units == nil || !p.Sync.active(p.Shape) || k == graph.WeightGradient {
		return nil
	}
	return p.Sync.Units[stage].Gather
}

// gather adds the all-gathers of the parameters that an action needs. With overlap only two units
// are whole at a time, so that the gather waits for the use before the last; otherwise for all
// before it.
func (b *rankBuilder) gather(p *parts) {
	sizes := b.gathers(p.Kind, p.Stage)
	if len(sizes) == 0 {
		return
	}
	stream, class := b.open(&b.parameters, "parameters"), b.entry(units, p.on, 0)
	if *class == graph.None {
		*class = int32(len(b.graph.Classes))
		for k, bytes := range sizes {
			t := b.task(&p.Action, graph.AllGather, stream)
			t.Part, t.Peer, t.Bytes = uint16(k), b.groups.gather[b.rank], bytes
			b.add(t, 1)
		}
	}
	for k := range sizes {
		b.gathered = b.graph.Put(*class+int32(k), stream, p.Microbatch)
		if b.Sync.Overlap {
			b.graph.Wait(b.gathered, b.uses[0])
		} else {
			b.graph.Wait(b.gathered, b.computed, b.closing)
		}
	}
}

// tail adds what follows the last backward of a rank: tied gradients, the
// sums over replicas that have not left early, the average, the optimizer,
// and the gathering of updated parameters. Each follows what ends the step before it.
func (b *rankBuilder) tail() {
	active := b.Sync.active(b.Shape)
	shares := b.Placement.Second != nil && active && b.Sync.Sharded
	if !shares {
		b.sumTied()
	}
	whole := graph.Task{Stream: b.compute, Stage: graph.None, Microbatch: graph.None, Peer: graph.None}
	if active {
		b.sumRest()
		if shares {
			b.sumTied()
		}
		whole.Kind, whole.Bytes = graph.Average, b.averaged(b.stagesOn[b.rank])
		b.closing = b.addSingle(whole, b.closing)
	}
	if !b.Optimizer || b.Stashing {
		return
	}
	whole.Kind, whole.Bytes = graph.Optimizer, 0
	b.closing = b.addSingle(whole, b.closing)
	if b.gathersUpdated() {
		b.gatherUpdated()
	}
}

// sumTied adds the sums of what several ranks of the replica hold; of second copies whose
// optimizer is sharded, these are sums of shares.
func (b *rankBuilder) sumTied() {
	for i, t := range b.Tied {
		if ranks := b.tiedRanks(t); len(ranks) > 1 && slices.Contains(ranks, b.rank) {
			b.closing = b.addSingle(graph.Task{
				Kind: graph.AllReduce, Stream: b.open(&b.gradients, "gradients"), Stage: graph.None, Microbatch: graph.None,
				Peer: b.groups.tied[0][i], Bytes: t.Bytes,
			}, b.computed)
		}
	}
}

// sumRest adds the sums that have not left early.
func (b *rankBuilder) sumRest() {
	if b.leavesEarly() {
		return
	}
	for _, s := range b.stagesOn[b.rank] {
		on := s
		if b.Placement.First[s] != b.rank {
			on += int32(b.Placement.Stages())
		}
		for bucket := range b.Sync.Buckets[s] {
			b.sum(s, on, bucket, graph.None)
		}
	}
}

// averaged counts the bytes of summed gradients that a rank with some stages divides.
func (p *Pipeline) averaged(stages []int32) int64 {
	var shares, all, experts int64
	for _, s := range stages {
		for bucket, size := range p.Sync.Buckets[s] {
			if p.Sync.isExpert(s, bucket) {
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

// gathersUpdated reports whether updated parameters are gathered at the end.
func (p *Pipeline) gathersUpdated() bool {
	return p.Optimizer && !p.Stashing && p.Sync.active(p.Shape) && p.Sync.Sharded && p.Sync.Units == nil && p.Sync.Ahead == nil
}

// gatherUpdated adds the gathers of what a sharded optimizer has updated: of a stage's
// parameters, and of its experts'.
func (b *rankBuilder) gatherUpdated() {
	gather := func(stage int32, part uint16, group int32, bytes int64) {
		b.addSingle(graph.Task{
			Kind: graph.AllGather, Part: part, Stream: b.open(&b.gradients, "gradients"), Stage: stage, Microbatch: graph.None,
			Peer: group, Bytes: bytes,
		}, b.closing)
	}
	for _, s := range b.stagesOn[b.rank] {
		gather(s, 0, b.group(false), b.Sync.Parameters[s])
		if b.Sync.expertParameters(s) > 0 {
			gather(s, 1, b.group(true), b.Sync.ExpertParameters[s])
		}
	}
}
