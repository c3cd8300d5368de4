package wiring

import (
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// builder adds the tasks of a pipeline, without what they depend on.
type builder struct {
	*Pipeline
	graph    *graph.Graph
	made     *results
	cycles   *cycles
	groups   groups
	last     []int     // by stage and copy: the action of its rank that completes its gradients
	first    []ahead   // by stage, where parameters are gathered ahead
	stagesOn [][]int32 // by pipeline rank, last first: the order in which gradients are complete
}

func newBuilder(p *Pipeline, g *graph.Graph, cycles *cycles) *builder {
	b := &builder{
		Pipeline: p, graph: g, made: newResults(p), cycles: cycles, groups: p.groups(g),
		last:     make([]int, len(p.Placement.First)+len(p.Placement.Second)),
		first:    p.firstForwards(),
		stagesOn: p.stagesOn(),
	}
	for _, actions := range p.Order {
		for i, a := range actions {
			if makesGradients(a.Kind) {
				b.last[p.Placement.Copy(a.Stage, a.Microbatch)] = i
			}
		}
	}
	return b
}

// stagesOn lists the stages of every pipeline rank, last first.
func (p *Pipeline) stagesOn() [][]int32 {
	on := make([][]int32, p.Shape.Ranks)
	for s := p.Placement.Stages() - 1; s >= 0; s-- {
		for _, r := range p.Placement.Ranks(s) {
			on[r] = append(on[r], int32(s))
		}
	}
	return on
}

// makesGradients reports whether a task of that kind completes a microbatch's
// share of a stage's gradients.
func makesGradients(k graph.Kind) bool { return k == graph.Backward || k == graph.WeightGradient }

// rankBuilder adds the tasks of one rank of one replica.
type rankBuilder struct {
	*builder
	replica, pipelineRank         int
	rank                          int32
	compute                       int32              // stream
	beside, gradients, parameters int32              // streams, None until they are needed
	experts                       int32              // likewise
	sends                         map[[2]int32]int32 // streams by peer and kind
}

func (b *builder) rank(replica, pipelineRank int) {
	rank := int32(replica*b.Shape.Ranks + pipelineRank)
	rb := &rankBuilder{
		builder: b, replica: replica, pipelineRank: pipelineRank, rank: rank,
		compute: b.graph.AddStream(rank, "compute"), beside: graph.None, gradients: graph.None, parameters: graph.None, experts: graph.None, sends: map[[2]int32]int32{},
	}
	rb.broadcast()
	rb.gatherAhead()
	for i := 0; i < len(b.Order[pipelineRank]); i++ {
		if b.interleaved(pipelineRank, i) {
			rb.pair(i)
			i++
		} else {
			rb.action(i)
		}
	}
	rb.tail()
}

// stream returns one of the rank's streams, made when first needed.
func (b *rankBuilder) stream(of *int32, name string) int32 {
	if *of == graph.None {
		*of = b.graph.AddStream(b.rank, name)
	}
	return *of
}

func (b *rankBuilder) add(t graph.Task) int32 {
	t.Rank = b.rank
	b.graph.Tasks = append(b.graph.Tasks, t)
	return int32(len(b.graph.Tasks) - 1)
}

// action adds the tasks of an action, the i-th of its rank, and what leaves
// with them: one task, or its parts. Under ZeRO 3 the parameters that it uses
// are gathered first.
func (b *rankBuilder) action(i int) {
	parts := b.parts(i)
	for parts.next < parts.cut.parts {
		b.part(&parts)
	}
}

// parts holds an action, the i-th of its rank, of which some parts have been added.
type parts struct {
	order.Action
	i, next, left int // left: gradient buckets that have
	cut           cut
	stream        int32
}

// parts begins to add an action.
func (b *rankBuilder) parts(i int) parts {
	a := b.Order[b.pipelineRank][i]
	b.gather(a)
	buckets := 0
	if b.leaves(i, a) {
		buckets = len(b.Sync.Buckets[a.Stage])
	}
	return parts{Action: a, i: i, cut: b.cut(a, buckets, b.besides(a)), stream: b.streamOf(i)}
}

// part adds the next part of an action.
func (b *rankBuilder) part(p *parts) {
	a, last, delayed := p.Action, p.next == p.cut.parts-1, b.delayed(p.Action)
	task := graph.Task{Kind: a.Kind, Part: uint16(p.next), Stream: p.stream, Stage: a.Stage, Microbatch: a.Microbatch, Peer: graph.None}
	if delayed {
		task.Kind = graph.InputGradient
	}
	id := b.add(task)
	if last {
		b.ends(p.i, a, id)
	} else if p.cut.exchanges != nil {
		b.exchange(a, p.cut, p.next)
	}
	if delayed {
		task.Kind = graph.WeightGradient
		b.add(task)
	}
	for ; p.left < p.cut.left(p.next); p.left++ {
		b.sum(a, p.left)
	}
	p.next++
	if last && b.Stashing && b.Optimizer && makesGradients(a.Kind) {
		b.add(graph.Task{Kind: graph.Optimizer, Stream: b.compute, Stage: a.Stage, Microbatch: a.Microbatch, Peer: graph.None})
	}
}

// ends notes the task that ends an action, the i-th of its rank, and sends what it
// made.
func (b *rankBuilder) ends(i int, a order.Action, id int32) {
	if a.Kind != graph.WeightGradient {
		*b.made.of(a) = id
	}
	if to := b.destination(a); to != graph.None {
		id = b.message(a, int32(b.replica*b.Shape.Ranks)+to)
	}
	b.cycles.ends(b.pipelineRank, i, id)
}

// message adds the send of what an action made to a rank, and returns its index.
func (b *rankBuilder) message(a order.Action, to int32) int32 {
	kind, direction, boundary := graph.SendForward, "F", a.Stage
	if a.Kind != graph.Forward {
		kind, direction, boundary = graph.SendBackward, "B", a.Stage-1
	}
	stream, ok := b.sends[[2]int32{to, int32(kind)}]
	if !ok {
		stream = b.graph.AddStream(b.rank, fmt.Sprintf("send %s to %d", direction, to))
		b.sends[[2]int32{to, int32(kind)}] = stream
	}
	return b.add(graph.Task{
		Kind: kind, Stream: stream, Stage: a.Stage, Microbatch: a.Microbatch,
		Peer: to, Bytes: b.payload(kind, boundary, a.Microbatch, b.replica),
	})
}

// payload gives the size in bytes of a message across a boundary of a replica.
func (p *Pipeline) payload(k graph.Kind, boundary, microbatch int32, replica int) int64 {
	if p.Boundaries == nil {
		return 0
	}
	bytes := p.Boundaries[boundary].Forward
	if k == graph.SendBackward {
		bytes = p.Boundaries[boundary].Backward
	}
	return bytes * p.samples(microbatch, replica)
}

// samples returns the size of a microbatch of a replica.
func (p *Pipeline) samples(microbatch int32, replica int) int64 {
	switch {
	case p.Shards != nil:
		return p.Shards[replica]
	case p.Samples != nil:
		return p.Samples[microbatch]
	}
	return 1
}

// destination finds the rank that an action's result is sent to; None where it
// stays.
func (p *Pipeline) destination(a order.Action) int32 {
	if _, leaves := a.Send(p.Placement); leaves {
		return p.Placement.Rank(a.Feeds(p.Placement.Stages()), a.Microbatch)
	}
	return graph.None
}

// results holds, by stage and microbatch, the tasks of the replica at hand that make
// activations and input gradients. Where a message carries the result, it is the
// next task.
type results struct {
	microbatches      int
	forward, backward []int32
}

func newResults(p *Pipeline) *results {
	n := p.Placement.Stages() * p.Shape.Microbatches
	return &results{microbatches: p.Shape.Microbatches, forward: make([]int32, n), backward: make([]int32, n)}
}

// of points to where the task of an F, B or I stands.
func (r *results) of(a order.Action) *int32 {
	at := int(a.Stage)*r.microbatches + int(a.Microbatch)
	if a.Kind == graph.Forward {
		return &r.forward[at]
	}
	return &r.backward[at]
}
