package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// Sync says how the gradients of data-parallel replicas are summed. Without
// replicas, or without buckets and units, there is nothing to do.
type Sync struct {
	// Buckets[s] lists the sizes in bytes of the pieces in which the
	// gradients of stage s travel, in the order in which a backward completes
	// them: one per parameter tensor, or PyTorch's buckets.
	Buckets [][]int64
	// Parameters[s] is the size in bytes of stage s's parameters, which a
	// sharded optimizer gathers after its update.
	Parameters []int64
	// Overlap slices the last backward of every stage, one slice per bucket,
	// so that a bucket leaves while the next is computed.
	Overlap bool
	// Sharded is ZeRO stages 1 and 2: gradients are reduce-scattered and the
	// updated parameters gathered (Rajbhandari et al. 2020, section 7).
	Sharded bool
	// EveryMicrobatch is ZeRO stage 2: no rank has room for whole gradients of
	// more than one microbatch, so they are summed after each, not only the
	// last.
	EveryMicrobatch bool
	// Units is ZeRO stage 3, by stage: every stage is gathered before it is
	// used. Units take the place of Buckets and Parameters, and imply Sharded
	// and EveryMicrobatch.
	Units []Unit
	// NoReduceScatter is for libraries that lack the collective, such as Gloo:
	// gradients that would be reduce-scattered are all-reduced, and each rank
	// keeps its share of the sum.
	NoReduceScatter bool
}

// active reports whether there is anything to sum.
func (s Sync) active(shape graph.Shape) bool { return s.Buckets != nil && shape.Replicas > 1 }

// kind is the collective that sums gradients.
func (s Sync) kind() graph.Kind {
	if s.Sharded && !s.NoReduceScatter {
		return graph.ReduceScatter
	}
	return graph.AllReduce
}

// syncGroups indexes Graph.Groups.
type syncGroups struct {
	stage  []int32   // by pipeline rank: the same rank of all replicas
	gather []int32   // the same ranks again, for the gathering of units
	tied   [][]int32 // by replica and tied parameter
}

// addGroups makes a group of every pipeline rank over the replicas, and one
// per replica and tied parameter.
func (w *wiring) addGroups() {
	if w.Sync.active(w.Shape) {
		for r := range w.Shape.Ranks {
			var ranks []int32
			for d := range w.Shape.Replicas {
				ranks = append(ranks, int32(d*w.Shape.Ranks+r))
			}
			w.groups.stage = append(w.groups.stage, w.graph.AddGroup(ranks))
			if w.Sync.Units != nil {
				w.groups.gather = append(w.groups.gather, w.graph.AddGroup(ranks))
			}
		}
	}
	for d := range w.Shape.Replicas {
		var groups []int32
		for _, t := range w.Tied {
			var ranks []int32
			for _, r := range w.tiedRanks(t) {
				ranks = append(ranks, int32(d*w.Shape.Ranks)+r)
			}
			groups = append(groups, w.graph.AddGroup(ranks))
		}
		w.groups.tied = append(w.groups.tied, groups)
	}
}

// tiedRanks lists the distinct ranks of a tied parameter's stages. On a
// single rank there is one copy and nothing to sum.
func (p *Pipeline) tiedRanks(t Tied) []int32 {
	var ranks []int32
	seen := map[int32]bool{}
	for _, s := range t.Stages {
		if r := p.Placement.First[s]; !seen[r] {
			seen[r] = true
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// tiedOn lists the tied parameters that a pipeline rank shares with another.
func (w *wiring) tiedOn(rank int32) []int {
	var on []int
	for i, t := range w.Tied {
		ranks := w.tiedRanks(t)
		for _, r := range ranks {
			if r == rank && len(ranks) > 1 {
				on = append(on, i)
			}
		}
	}
	return on
}

// stagesByRank lists the stages of every pipeline rank, last first: the order
// in which their gradients are complete.
func (p Pipeline) stagesByRank() [][]int32 {
	on := make([][]int32, p.Shape.Ranks)
	for s := len(p.Placement.First) - 1; s >= 0; s-- {
		on[p.Placement.First[s]] = append(on[p.Placement.First[s]], int32(s))
		if p.Placement.Second != nil {
			on[p.Placement.Second[s]] = append(on[p.Placement.Second[s]], int32(s))
		}
	}
	return on
}

// size bounds the number of tasks that synchronising adds to one replica.
func (s Sync) size(shape graph.Shape) int64 {
	if !s.active(shape) {
		return 0
	}
	times := int64(1)
	if s.EveryMicrobatch {
		times = int64(shape.Microbatches)
	}
	n := int64(shape.Ranks)
	for _, buckets := range s.Buckets {
		n += 2*int64(len(buckets))*times + 1
	}
	return n + 2*int64(len(s.Units))*times
}

// leaves reports whether gradients leave with an action, the i-th of its
// rank, and not only after the last: with every backward, or with the one that
// completes them if they leave early.
func (w *rankWiring) leaves(i int, a order.Action) bool {
	if a.Kind != graph.Backward && a.Kind != graph.WeightGradient || !w.Sync.active(w.Shape) || len(w.Sync.Buckets[a.Stage]) == 0 {
		return false
	}
	return w.Sync.EveryMicrobatch || w.Sync.Overlap && w.last[w.Placement.Copy(a.Stage, a.Microbatch)] == i
}

// tail adds what follows the last backward of a rank: tied gradients, the
// sums over replicas that have not left early, the average, the optimizer,
// and the gathering of updated parameters.
func (w *rankWiring) tail() {
	for _, i := range w.tiedOn(int32(w.pipelineRank)) {
		w.add(graph.Task{
			Kind: graph.AllReduce, Rank: w.rank, Stream: w.gradientStream(), Stage: graph.None, Microbatch: graph.None,
			Peer: w.groups.tied[w.replica][i], Bytes: w.Tied[i].Bytes,
		})
	}
	stages := w.stagesOn[w.pipelineRank]
	if w.Sync.active(w.Shape) {
		var bytes int64
		for _, s := range stages {
			for part, b := range w.Sync.Buckets[s] {
				bytes += b
				if !w.Sync.Overlap && !w.Sync.EveryMicrobatch {
					w.sum(s, graph.None, part)
				}
			}
		}
		switch {
		case w.Sync.Units != nil:
			bytes = w.shares(stages)
		case w.Sync.Sharded:
			bytes /= int64(w.Shape.Replicas) // each replica has its share of the sum
		}
		w.add(graph.Task{Kind: graph.Average, Rank: w.rank, Stream: w.compute, Stage: graph.None, Microbatch: graph.None, Peer: graph.None, Bytes: bytes})
	}
	if !w.Optimizer || w.Stashing {
		return
	}
	w.add(graph.Task{Kind: graph.Optimizer, Rank: w.rank, Stream: w.compute, Stage: graph.None, Microbatch: graph.None, Peer: graph.None})
	for _, s := range stages {
		if w.Sync.active(w.Shape) && w.Sync.Sharded && w.Sync.Units == nil {
			w.add(graph.Task{
				Kind: graph.AllGather, Rank: w.rank, Stream: w.gradientStream(), Stage: s, Microbatch: graph.None,
				Peer: w.groups.stage[w.pipelineRank], Bytes: w.Sync.Parameters[s],
			})
		}
	}
}

// sum adds the collective of one gradient bucket, of one microbatch or of the
// whole step.
func (w *rankWiring) sum(stage, microbatch int32, part int) {
	w.add(graph.Task{
		Kind: w.Sync.kind(), Part: uint16(part), Rank: w.rank, Stream: w.gradientStream(),
		Stage: stage, Microbatch: microbatch, Peer: w.groups.stage[w.pipelineRank], Bytes: w.Sync.Buckets[stage][part],
	})
}

// gradientStream returns the rank's stream for collectives, made when first
// needed.
func (w *rankWiring) gradientStream() int32 {
	if w.gradients == graph.None {
		w.gradients = w.graph.AddStream(w.rank, "gradients")
	}
	return w.gradients
}
