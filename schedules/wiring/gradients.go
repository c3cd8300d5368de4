package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// groups are indices of Graph.Groups.
type groups struct {
	stage []int32   // by pipeline rank: the same rank of all replicas
	tied  [][]int32 // by replica and tied parameter
}

// makeGroups adds a group of every pipeline rank over the replicas, the groups of experts, and a
// group per replica and tied parameter.
func (p *Pipeline) makeGroups(g *graph.Graph) groups {
	var all groups
	if p.Sync.active(p.Shape) {
		for r := range p.Shape.Ranks {
			var ranks []int32
			for d := range p.Shape.Replicas {
				ranks = append(ranks, int32(d*p.Shape.Ranks+r))
			}
			all.stage = append(all.stage, g.AddWide(ranks, p.Sync.width()))
		}
	}
	p.expertGroups(g)
	if p.Sync.ShardSpan > 0 && p.Sync.active(p.Shape) {
		g.AddSharing(p.Shape, p.Sync.ShardSpan, p.Sync.width())
		if p.Sync.acrossGroups() {
			g.AddAcross(p.Shape)
		}
	}
	all.tied = make([][]int32, p.Shape.Replicas)
	for d := range all.tied {
		for _, t := range p.Tied {
			ranks := p.tiedRanks(t)
			for i := range ranks {
				ranks[i] += int32(d * p.Shape.Ranks)
			}
			all.tied[d] = append(all.tied[d], g.AddGroup(ranks))
		}
	}
	return all
}

// AddGroups adds the groups of a graph as [Pipeline.Graph] does. It returns the group over which a
// rank of the first replica sums gradients, of experts or of everything else.
func (p Pipeline) AddGroups(g *graph.Graph) (of func(rank int32, expert bool) int32) {
	p.fill()
	all := p.makeGroups(g)
	return func(rank int32, expert bool) int32 {
		if expert {
			return g.Experts.SumGroup(0, rank, int32(p.Shape.Ranks))
		}
		return all.stage[rank]
	}
}

// tiedRanks lists the distinct ranks of a tied parameter's stages. If there is only
// one rank, it has one copy and nothing to sum.
func (p *Pipeline) tiedRanks(t Tied) []int32 {
	var ranks []int32
	for _, s := range t.Stages {
		if r := p.Placement.First[s]; !slices.Contains(ranks, r) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// addBroadcasts adds the broadcasts of the first replica's parameters.
func (b *rankBuilder) addBroadcasts() {
	if b.Sync.Broadcast == nil || !b.Sync.active(b.Shape) {
		return
	}
	for _, s := range slices.Backward(b.stagesOn[b.rank]) {
		for part, bytes := range b.Sync.Broadcast[s] {
			t := b.stageTask(graph.Broadcast, s, part)
			t.Peer, t.Bytes = b.group(b.Sync.isExpert(s, part)), bytes
			b.broadcasted = b.addCollective(t)
		}
	}
}

// sumsEarly reports whether gradients are sent before the end of the step.
func (p *Pipeline) sumsEarly() bool {
	return (p.Sync.Overlap || p.Sync.EveryMicrobatch) && p.Sync.active(p.Shape)
}

// sumsWith reports whether gradients are sent with an action, the i-th of its rank: that is with
// every backward, or with the one that completes them. Otherwise they are sent at the end.
func (b *rankBuilder) sumsWith(i int, a order.Action) bool {
	if !b.makesSums(a.Kind, a.Stage) {
		return false
	}
	return b.Sync.EveryMicrobatch || b.Sync.Overlap && b.last[b.copyOf(&a)] == int32(i)
}

// sumTasks counts the tasks that summing the gradients of a stage adds: a sum per
// bucket, and if buckets cut the backward, one more slice of it for each bucket but the first.
func (p *Pipeline) sumTasks(stage int32) int64 {
	buckets := int64(len(p.Sync.Buckets[stage]))
	n := buckets * p.perSum()
	if p.Sync.Overlap && p.Sync.Units == nil && buckets > 0 && !p.divided(stage) {
		n += buckets - 1
	}
	return n
}

// perSum counts the tasks that sum a bucket.
func (p *Pipeline) perSum() int64 {
	if p.Sync.acrossGroups() {
		return 2 * p.perCollective()
	}
	return p.perCollective()
}

// makesSums reports whether tasks of a kind make gradients of a stage that are summed over
// replicas.
func (p *Pipeline) makesSums(k graph.Kind, stage int32) bool {
	return makesGradients(k) && p.Sync.active(p.Shape) && len(p.Sync.Buckets[stage]) > 0
}

// addSum adds the collective that sums one gradient bucket of a copy of a stage. With units it is
// of one microbatch, otherwise of the whole step.
func (b *rankBuilder) addSum(stage, on int32, bucket int, microbatch int32) {
	if b.Sync.Units == nil {
		microbatch = graph.None
	}
	stream, class := b.open(&b.gradients, "gradients"), b.entry(buckets, on, 0)
	if *class == graph.None {
		*class = int32(len(b.graph.Classes))
		for k, bytes := range b.Sync.Buckets[stage] {
			t := b.stageTask(b.Sync.Kind(), stage, k)
			t.Microbatch, t.Peer, t.Bytes = microbatch, b.group(b.Sync.isExpert(stage, k)), bytes
			if b.Sync.acrossGroups() {
				t.Peer = b.sharing(false)
			}
			b.addCollectiveClass(t)
			if b.Sync.acrossGroups() {
				b.addCollectiveClass(b.sumOfShares(t))
			}
		}
	}
	first, before := *class+int32(bucket)*int32(b.perSum()), int32(graph.None)
	if b.Sync.acrossGroups() && !b.Sync.Overlap {
		before = b.closing
	}
	sum := b.putCollective(first, stream, microbatch, b.computed, before)
	if b.closing = sum; b.Sync.acrossGroups() {
		b.closing = b.putCollective(first+int32(b.perCollective()), b.across, microbatch, sum)
	}
	if bucket == 0 {
		b.summed[0] = b.summed[1]
	}
	b.summed[1] = sum
}

// sumOfShares returns the sum, over all groups that divide gradients, of what a scatter within a group leaves. It has
// a stream and communicators of its own, so that the next scatter may run at the same time.
func (b *rankBuilder) sumOfShares(scatter graph.Task) graph.Task {
	n := int64(b.Sync.sharers(b.Shape))
	scatter.Kind, scatter.Bytes = graph.AllReduce, (scatter.Bytes+n-1)/n
	scatter.Peer = b.graph.Sharing.Across(0, b.rank, int32(b.Shape.Ranks))
	scatter.Stream = b.open(&b.across, "sums of shares")
	return scatter
}

// stageTask returns a task for a part of a stage's gradients or parameters in the whole step.
func (b *rankBuilder) stageTask(kind graph.Kind, stage int32, part int) graph.Task {
	return graph.Task{
		Kind: kind, Part: uint16(part), Rank: b.rank, Stream: b.open(&b.gradients, "gradients"),
		Stage: stage, Microbatch: graph.None,
	}
}

// group returns the group over which gradients or parameters are sent, of experts or of everything
// else.
func (b *rankBuilder) group(expert bool) int32 {
	if expert {
		return b.graph.Experts.SumGroup(0, b.rank, int32(b.Shape.Ranks))
	}
	return b.groups.stage[b.rank]
}

// sharing returns the group that gathers parameters, of experts or of everything else.
func (b *rankBuilder) sharing(expert bool) int32 {
	if b.Sync.ShardSpan > 0 && !expert {
		return b.graph.Sharing.Group(0, b.rank, int32(b.Shape.Ranks))
	}
	return b.group(expert)
}

// gathers lists the sizes of the sharded parameters that an action needs. A weight gradient
// does not need parameters.
func (p *Pipeline) gathers(k graph.Kind, stage int32) []int64 {
	if p.Sync.Units == nil || !p.Sync.active(p.Shape) || k == graph.WeightGradient {
		return nil
	}
	return p.Sync.Units[stage].Gather
}

// gatherFor adds the all-gathers of the parameters that the i-th action needs, unless they have been
// added. With overlap it also adds those of the next action that needs any, before the sums of this
// one: the order in which PyTorch's FSDP calls them, which prefetches within a pass but not from a
// backward to the next forward.
func (b *rankBuilder) gatherFor(i int) {
	if b.Sync.Units == nil {
		return
	}
	actions := b.Order[b.rank]
	uses := func(n int) bool { return len(b.gathers(actions[n].Kind, actions[n].Stage)) > 0 }
	before := b.uses[0]
	if uses(i) {
		if b.prefetched.action != i {
			b.prefetched = gathers{i, b.addGathers(&actions[i], before)}
		}
		b.gathered, before = b.prefetched.last, b.uses[1]
	}
	next := max(b.nextUse, i+1)
	for next < len(actions) && !uses(next) {
		next++
	}
	b.nextUse = next
	if !b.Sync.Overlap || next == len(actions) || b.prefetched.action == next {
		return
	}
	if actions[i].Kind == graph.Forward || actions[next].Kind != graph.Forward {
		b.prefetched = gathers{next, b.addGathers(&actions[next], before)}
	}
}

// gathers are the all-gathers for an action of a rank.
type gathers struct {
	action int
	last   int32 // the task with which they end; None if there are none
}

// addGathers adds the all-gathers of the parameters that an action needs, and returns the task with
// which they end. With overlap at most two units are whole at a time, so that the gather waits for the
// use before the last. Otherwise it waits for everything before it.
func (b *rankBuilder) addGathers(a *order.Action, before int32) (last int32) {
	stream, class := b.open(&b.gradients, "gradients"), b.entry(units, b.copyOf(a), 0)
	if *class == graph.None {
		*class = int32(len(b.graph.Classes))
		for k, bytes := range b.gathers(a.Kind, a.Stage) {
			t := b.task(a, graph.AllGather, stream)
			t.Part, t.Peer, t.Bytes = uint16(k), b.sharing(b.Sync.isExpert(a.Stage, k)), bytes
			b.addCollectiveClass(t)
		}
	}
	for k := range b.gathers(a.Kind, a.Stage) {
		first := *class + int32(k)*int32(b.perCollective())
		if b.Sync.Overlap {
			last = b.putCollective(first, stream, a.Microbatch, before)
		} else {
			last = b.putCollective(first, stream, a.Microbatch, b.computed, b.closing)
		}
	}
	return last
}

// addTail adds the tasks after the last backward of a rank: the sums of tied gradients, the
// remaining sums over replicas, the average, the optimizer, and the gathers of updated
// parameters. Each depends on the one before it.
func (b *rankBuilder) addTail() {
	active := b.Sync.active(b.Shape)
	shares := b.Placement.Second != nil && active && b.Sync.Sharded
	if !shares {
		b.addTiedSums()
	}
	whole := graph.Task{Stream: b.compute, Stage: graph.None, Microbatch: graph.None, Peer: graph.None}
	if active {
		b.addRemainingSums()
		if shares {
			b.addTiedSums()
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
		b.addGathersUpdated()
	}
}

// addTiedSums adds the sums of gradients over the ranks of the replica that hold the same
// parameters. For second copies with a sharded optimizer these are sums of shares.
func (b *rankBuilder) addTiedSums() {
	for i, t := range b.Tied {
		if ranks := b.tiedRanks(t); len(ranks) > 1 && slices.Contains(ranks, b.rank) {
			sum := b.stageTask(graph.AllReduce, graph.None, 0)
			sum.Peer, sum.Bytes = b.groups.tied[0][i], t.Bytes
			b.closing = b.addCollective(sum, b.computed)
		}
	}
}

// addRemainingSums adds the sums over replicas at the end of the step.
func (b *rankBuilder) addRemainingSums() {
	if b.sumsEarly() {
		return
	}
	for _, s := range b.stagesOn[b.rank] {
		on := s
		if b.Placement.First[s] != b.rank {
			on += int32(b.Placement.Stages())
		}
		for bucket := range b.Sync.Buckets[s] {
			b.addSum(s, on, bucket, graph.None)
		}
	}
}

// averaged counts the bytes of summed gradients that a rank with a list of stages divides by the
// number of replicas.
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
		holders := p.Shape.Replicas / max(1, p.ExpertSpan) * max(1, p.Sync.ExpertWidth) // of the same experts
		return all/int64(p.Sync.sharers(p.Shape)) + experts/int64(holders)
	}
	return all + experts
}

// gathersUpdated reports whether updated parameters are gathered at the end.
func (p *Pipeline) gathersUpdated() bool {
	s := &p.Sync
	return p.Optimizer && !p.Stashing && s.active(p.Shape) && s.Sharded && s.Units == nil && s.Ahead == nil
}

// addGathersUpdated adds the gathers of the parameters that a sharded optimizer has updated, stage by
// stage and piece by piece.
func (b *rankBuilder) addGathersUpdated() {
	for _, s := range b.stagesOn[b.rank] {
		for part, bytes := range b.Sync.Parameters[s] {
			t := b.stageTask(graph.AllGather, s, part)
			t.Peer, t.Bytes = b.sharing(b.Sync.UpdatedIsExpert(s, part)), bytes
			b.addCollective(t, b.closing)
		}
	}
}
