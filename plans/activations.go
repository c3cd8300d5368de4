package plans

import (
	"cmp"
	"slices"

	"psim/costmodel/stages"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// stageMemory holds the bytes that a microbatch takes on the rank of a stage. It assumes
// that messages arrive when they are needed and leave at once, so that an order needs at
// least this.
type stageMemory struct {
	inForward    int64 // the peak while F runs
	afterForward int64 // from the end of F on
	inBackward   int64 // the peak while B runs
	inInput      int64 // the peak while I runs
	afterInput   int64 // from the end of I until W
	// What collectives hold while F, B, I or W runs: gathered parameters, whole gradients that are still to be
	// scattered, and the rows that an all-to-all sends. All of it is gone soon after the pass.
	held [kindsOfPass]int64
}

// least returns the peak of a microbatch by itself, whether its backward is split or not.
func (m *stageMemory) least() int64 {
	return max(m.inForward, m.afterForward, min(m.inBackward, m.inInput))
}

// measureActivations finds the memory of every stage, and reports whether a single
// microbatch already exceeds the memory of a rank: by a pass, or by what the forwards of all stages of a rank
// have left before the first backward.
func (g *stageGroup) measureActivations() (exceeds bool) {
	at, stages := g.graph.Placement, len(g.Workload.Stages)
	g.memory = make([]stageMemory, stages)
	left := make([]int64, g.Shape.Ranks)
	for s := range stages {
		m := g.memoryOf(s)
		g.memory[s] = m
		for _, r := range at.Ranks(s) {
			exceeds = exceeds || g.exceeds(int(r), m.least())
		}
		r := at.First[s]
		left[r] += m.afterForward
		exceeds = exceeds || g.exceeds(int(r), left[r])
	}
	return exceeds
}

// memoryOf follows a microbatch through a stage. A tensor that a stage passes on within its rank does not count:
// it may be gone before the passes of the stage are over.
func (g *stageGroup) memoryOf(stage int) (m stageMemory) {
	rank := g.graph.Placement.First[stage]
	message := func(k graph.Kind, from, to int) (start, end, within int64) {
		t, next := g.messageTask(k, from, to, 0)
		if !next {
			return 0, 0, 0
		}
		start, end = g.ledger.Task(&t)
		if g.graph.Placement.Together(from, to) {
			return 0, 0, end
		}
		return start, end, 0
	}
	compute := func(k graph.Kind) (start, end int64) {
		t := computeTask(k, rank, stage, 0)
		before, after := g.ledger.Parts(&t) // whole parameters and gradients come and go with collectives
		return before.Activations, after.Activations
	}
	forwardStart, forwardEnd := compute(graph.Forward)
	backwardStart, _ := compute(graph.Backward)
	inputStart, inputEnd := compute(graph.InputGradient)
	activationsIn, _, _ := message(graph.SendForward, stage-1, stage)
	_, activationsOut, activationsWithin := message(graph.SendForward, stage, stage+1)
	gradientsIn, _, _ := message(graph.SendBackward, stage+1, stage)
	_, gradientsOut, gradientsWithin := message(graph.SendBackward, stage, stage-1)
	m.inForward = activationsIn + forwardStart
	m.afterForward = m.inForward + forwardEnd + activationsOut + activationsWithin
	m.afterInput = m.afterForward + gradientsIn + inputStart + inputEnd + gradientsOut + gradientsWithin
	if !g.Workload.LossApart(stage) { // a loss between the passes may free what F has left
		m.inBackward, m.inInput = m.afterForward+gradientsIn+backwardStart, m.afterForward+gradientsIn+inputStart
	}
	copied := g.Workload.OffloadedBytes(stage) * g.Workload.Samples[0]
	m.afterForward, m.afterInput = m.afterForward-copied, m.afterInput-copied
	m.held = g.heldOf(stage)
	return m
}

// heldOf returns what held has for a stage.
func (g *stageGroup) heldOf(stage int) (bytes [kindsOfPass]int64) {
	rank, buckets := g.graph.Placement.First[stage], g.Workload.Stages[stage].Buckets
	exchanges := [kindsOfPass]int64{}
	if g.exchanges != nil && !g.Workload.Unsplit(stage) {
		forward, backward := largest(g.exchanges[stage].Forward), largest(g.exchanges[stage].Backward)
		exchanges = [kindsOfPass]int64{graph.Forward: forward, graph.Backward: backward, graph.InputGradient: backward}
	}
	divided := g.exchanges != nil && len(g.exchanges[stage].Backward) > 0
	for k := range bytes {
		t := computeTask(graph.Kind(k), rank, stage, 0)
		before, after := g.ledger.Parts(&t)
		gradients := before.Gradients // all of them when the pass begins
		if len(buckets) > 1 && g.Workload.Overlap && !divided && gradients > 0 {
			smaller := func(a, b stages.Bucket) int { return cmp.Compare(a.Bytes, b.Bytes) }
			gradients = slices.MinFunc(buckets, smaller).Bytes // they leave one by one
		}
		bytes[k] = max(gradients, exchanges[k]*g.Workload.Samples[0])
		if graph.Kind(k) != graph.WeightGradient {
			bytes[k] -= after.Parameters // gathered before it
		}
	}
	return bytes
}

func largest(list []int64) int64 { return slices.Max(append(list, 0)) }

// exceedsMemory reports whether the microbatches that an order holds at some time exceed
// the memory of a rank, whenever messages arrive. In paired orders a backward may start before the
// forward that precedes it, so its peak does not count. It can also count
// what collectives hold while a pass runs.
func (g *stageGroup) exceedsMemory(o order.Order, paired, held bool) bool {
	counts := int64(0)
	if held {
		counts = 1
	}
	for r, actions := range o {
		var level int64
		for i := range actions {
			a := &actions[i]
			m := &g.memory[a.Stage]
			during, left := m.pass(a.Kind)
			if (!paired || a.Kind == graph.Forward) && g.exceeds(r, level+during+counts*m.held[a.Kind]) {
				return true
			}
			if level += left; g.exceeds(r, level) {
				return true
			}
		}
	}
	return false
}

// pass returns the bytes that a pass takes while it runs, and those that it leaves, relative to what was there before.
func (m *stageMemory) pass(k graph.Kind) (during, left int64) {
	switch k {
	case graph.Forward:
		return m.inForward, m.afterForward
	case graph.Backward:
		return m.inBackward - m.afterForward, -m.afterForward
	case graph.InputGradient:
		return m.inInput - m.afterForward, m.afterInput - m.afterForward
	}
	return 0, -m.afterInput
}

// exceeds reports whether activations do not fit on a rank, with the allocator's reserve.
func (g *stageGroup) exceeds(rank int, activations int64) bool {
	return g.capacity > 0 && g.persistent[rank]+activations+g.process.Reserve(activations) > g.capacity
}
