package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// A Packer packs pipelines, one after another, in memory that it keeps: what it made
// before is lost. The zero value is ready.
//
// It adds the tasks that [Pipeline.Graph] adds, for the same reasons, but counts them
// first and makes none that is like others. So the graph is without that function's
// passes, and takes a tenth of the time.
type Packer struct {
	*Pipeline
	graph  *graph.Graph
	groups groups
	packed graph.Packed

	microbatches int32
	sizeOf       []int32 // by microbatch: which of the sizes that differ
	sizes        int32
	shared       bool   // a stage may hold what the next one's W needs
	done         []bits // by stage and microbatch, where shared

	// Copies of stages are numbered as by [graph.Placement.Copy].
	to       [2][]int32  // by copy: where the results of F and of B go; None if they stay
	stream   [2][]int32  // by copy: that of these messages
	made     [2][]int32  // by stage and microbatch: the task after which the result is there
	classes  []int32     // by kind, copy, size and bits, or None; then those of actions in parts
	sums     []int32     // by copy: the class of its first bucket's sum; or None
	last     []int32     // by copy: the action that completes its gradients
	first    []int32     // by stage: its first forward, where parameters are gathered ahead
	gathered []int32     // by stage: the first of these gathers
	compute  []int32     // by rank: the stream
	gradient []int32     // by rank: the stream; or None
	experts  []int32     // likewise
	names    [2][]string // of streams of messages, by direction and rank
	cursor   []int32     // by stream: where its next task goes
	copiesOn [][]int32   // by rank, last stage first
	needs    []int32     // of the action at hand
}

// bits tell apart microbatches of a stage whose neighbour is on the same rank.
type bits uint8

const (
	backward bits = 1 << iota // I or B has run
	input                     // I has run
	weight                    // W has run
	variants = 4              // of a class, by bits
)

// Pack packs a pipeline: all its replicas, or the first to stand for all. The error is
// graph.ErrNotPacked, graph.ErrNotAlike, or that of [Pipeline.Graph]. The graph has yet to be
// priced.
func (k *Packer) Pack(p Pipeline, folded bool) (*graph.Packed, error) {
	p.fill()
	if err := p.check(); err != nil {
		return nil, err
	}
	switch {
	case !p.packable():
		return nil, graph.ErrNotPacked
	case folded && p.Shards != nil:
		return nil, graph.ErrNotAlike
	}
	k.begin(&p, folded)
	for r := range p.Order {
		k.streams(int32(r))
	}
	if err := k.reserve(folded); err != nil {
		return nil, err
	}
	for r := range p.Order {
		k.rank(int32(r))
	}
	for r := range p.Order {
		k.connect(int32(r))
	}
	k.packed.Copies = p.Shape.Replicas
	if !folded {
		k.replicate()
	}
	k.members()
	return &k.packed, nil
}

// packable reports whether a pipeline has only what packed graphs have.
func (p *Pipeline) packable() bool {
	once := p.Placement.Second == nil || p.Sync.Ahead == nil && p.Placement.Half < int32(p.Shape.Microbatches)
	pairs := p.Pairs == Serial || p.Pairs == Fused && p.Exchanges == nil
	return once && pairs && (!p.DelayWeights || p.Exchanges == nil) && p.Sync.Units == nil && p.Sync.Broadcast == nil && !p.Synchronous && !p.SerialBackward && !p.WholeLast && !p.Stashing
}

// begin readies the memory for a pipeline.
func (k *Packer) begin(p *Pipeline, folded bool) {
	stages, m := p.Placement.Stages(), p.Shape.Microbatches
	g := &graph.Graph{Name: p.Name, Shape: p.Shape, Placement: p.Placement}
	if k.graph != nil {
		g.Tasks = k.graph.Tasks[:0]
	}
	k.Pipeline, k.graph, k.groups, k.microbatches = p, g, p.groups(g), int32(m)
	k.packed = graph.Packed{
		Graph: g, Tasks: k.packed.Tasks[:0], More: k.packed.More[:0], Counts: k.packed.Counts[:0],
		Begin: append(k.packed.Begin[:0], 0), First: append(k.packed.First[:0], 0),
		Classes: k.packed.Classes[:0], Costs: k.packed.Costs[:0], Members: k.packed.Members[:0], Within: int32(len(p.Tied)),
	}
	k.findSizes()
	k.shared = false
	copies := stages + len(p.Placement.Second)
	for d := range k.to {
		k.to[d], k.stream[d], k.made[d] = filled(k.to[d], copies), filled(k.stream[d], copies), grown(k.made[d], stages*m)
	}
	for s := range stages - 1 {
		if p.Placement.Together(s, s+1) {
			k.shared = k.shared || p.Order.Split()
			continue
		}
		k.to[0][s], k.to[1][s+1] = p.Placement.First[s+1], p.Placement.First[s]
		if p.Placement.Second != nil {
			k.to[0][stages+s], k.to[1][stages+s+1] = p.Placement.Second[s+1], p.Placement.Second[s]
		}
	}
	k.done = k.done[:0]
	if k.shared {
		k.done = grown(k.done, stages*m)
		clear(k.done)
		g.Late = make([]bool, stages*m)
	}
	k.classes, k.sums, k.last = filled(k.classes, 2*int(graph.Send)*copies*int(k.sizes)*variants), filled(k.sums, copies), filled(k.last, copies)
	k.first, k.gathered = filled(k.first, stages), filled(k.gathered, stages)
	k.compute, k.gradient, k.experts = filled(k.compute, p.Shape.Ranks), filled(k.gradient, p.Shape.Ranks), filled(k.experts, p.Shape.Ranks)
	k.cursor = k.cursor[:0]
	k.findCopies()
}

// findCopies lists the copies of stages on every rank: in the order in which gradients are
// complete.
func (k *Packer) findCopies() {
	k.copiesOn = make([][]int32, k.Shape.Ranks)
	for s := k.Placement.Stages() - 1; s >= 0; s-- {
		for i, r := range k.Placement.Ranks(s) {
			k.copiesOn[r] = append(k.copiesOn[r], int32(i*k.Placement.Stages()+s))
		}
	}
}

// copyOf numbers the copy of a stage that an action is on.
func (k *Packer) copyOf(a *order.Action) int32 {
	if k.Placement.Second == nil {
		return a.Stage
	}
	return int32(k.Placement.Copy(a.Stage, a.Microbatch))
}

// stage returns the stage of a copy, and how many microbatches this has.
func (k *Packer) stage(copy int32) (stage, microbatches int32) {
	stages, half := int32(k.Placement.Stages()), k.Placement.Half
	switch {
	case k.Placement.Second == nil:
		return copy, k.microbatches
	case copy < stages:
		return copy, half
	}
	return copy - stages, k.microbatches - half
}

// findSizes numbers the sizes of microbatches.
func (k *Packer) findSizes() {
	k.sizeOf, k.sizes = k.sizeOf[:0], 1
	if k.Samples == nil || k.Shards != nil || !slices.ContainsFunc(k.Samples, func(n int64) bool { return n != k.Samples[0] }) {
		return
	}
	var sizes []int64
	for _, n := range k.Samples {
		i := slices.Index(sizes, n)
		if i < 0 {
			i, sizes = len(sizes), append(sizes, n)
		}
		k.sizeOf = append(k.sizeOf, int32(i))
	}
	k.sizes = int32(len(sizes))
}

// grown returns a slice of some length, in the same memory if it suffices.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// filled returns so many Nones.
func filled(s []int32, n int) []int32 {
	s = grown(s, n)
	for i := range s {
		s[i] = graph.None
	}
	return s
}

// direction returns 0 for what goes to the next stage, and 1 for what comes back.
func direction(k graph.Kind) int {
	if k == graph.Forward {
		return 0
	}
	return 1
}

// sends finds the rank that an action's result goes to; None where it stays.
func (k *Packer) sends(a *order.Action) int32 {
	if a.Kind == graph.WeightGradient {
		return graph.None
	}
	return k.to[direction(a.Kind)][k.copyOf(a)]
}

// cut counts the parts into which an action is cut, the i-th of its rank, and the sums that
// leave with it.
func (k *Packer) cut(i int32, a *order.Action) (buckets, parts int32) {
	buckets, parts = k.leaving(i, a), 1
	switch {
	case k.divided(a.Stage):
		parts += int32(len(k.Exchanges[a.Stage].of(a.Kind)))
	case a.Kind == graph.Forward && k.first[a.Stage] == i:
		parts = max(1, int32(len(k.Sync.Ahead[a.Stage])))
	case k.Sync.Overlap:
		parts = max(1, buckets)
	}
	return buckets, parts
}

// summing reports whether gradients leave before the end.
func (k *Packer) summing() bool {
	return (k.Sync.Overlap || k.Sync.EveryMicrobatch) && k.Sync.active(k.Shape)
}

// cuts reports whether actions are cut, or anything leaves before the end.
func (k *Packer) cuts() bool { return k.summing() || k.ahead() || k.Exchanges != nil }

// ahead reports whether parameters are gathered beside the first forwards.
func (k *Packer) ahead() bool { return k.Sync.Ahead != nil && k.Sync.active(k.Shape) }
