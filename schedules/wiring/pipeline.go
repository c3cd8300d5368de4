// Package wiring turns a compute order into a task graph: [Pipeline.Graph] adds
// dependencies between stages, one message per boundary, microbatch and
// direction, the gradient sums of data-parallel replicas, and the optimizer.
// The same wiring serves every schedule.
//
// It goes in passes, each in a file of its own: check; arrange the order around a
// last stage that takes all microbatches at once (wholelast.go); find whose turn
// serial backwards wait for (turns.go) and the clock cycles of barriers
// (barrier.go); add the tasks of every rank with their messages (builder.go),
// gradient sums and gathers (gradients.go); and add what each waits for
// (connect.go, pair.go). Only the last two see tasks.
package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A Pipeline is everything that turns a compute order into a graph. The same
// wiring serves every pipeline schedule; a schedule is only the order.
type Pipeline struct {
	Name  string
	Shape graph.Shape
	// Placement is where the stages are; without stages it is stage s on rank s.
	Placement graph.Placement
	Order     order.Order
	// Samples is the size of every microbatch; nil means 1.
	Samples []int64
	// Shards is the size of all microbatches of a replica, where replicas differ; it
	// takes the place of Samples. nil: they do not.
	Shards []int64
	// Boundaries[s] is what crosses from stage s to s+1 and back, per sample;
	// nil means empty messages.
	Boundaries []Boundary
	// Exchanges lists the all-to-alls of every stage; nil where no experts are divided
	// among devices. ExpertSpan is over how many neighbouring replicas these exchange
	// tokens, and ExpertWidth how many devices of each of their ranks do so in one group;
	// 0 means 1.
	Exchanges               []Exchanges
	ExpertSpan, ExpertWidth int
	// DelayWeights makes two tasks of every part of a B that all-to-alls cut: an I, and a W
	// beside what the I sends.
	DelayWeights bool
	// Sync says how the gradients of the replicas are summed.
	Sync Sync
	// Tied lists parameters that live on several stages, such as an embedding
	// that is also the output layer: their gradients are summed over them.
	Tied []Tied
	// Optimizer ends the step with one optimizer task per rank.
	Optimizer bool
	// Synchronous puts a barrier between clock cycles (see Order.Clocks): no
	// compute task starts before all of its replica's in the cycle before have
	// ended, and what they send has arrived.
	Synchronous bool
	// SerialBackward lets no two backwards of a replica run side by side: they
	// run in the reverse of the order in which the forwards are issued, by clock
	// cycle and stage, and each waits for the message of the one before it.
	SerialBackward bool
	// WholeLast has the last stage begin when all microbatches have come to it, and
	// hand on gradients when it has gone back through all: what a program does that
	// pipelines the blocks of a network and then runs its head on the whole batch.
	// It takes an order with all forwards before the first backward.
	WholeLast bool
	// Stashing has the Optimizer update a stage after every backward on it, not at
	// the end; backwards use the weights of their forwards (see pipedream). It takes
	// one stage per rank.
	Stashing bool
	// Brief leaves out the microbatches of tasks, and so a sixth of the memory: statistics need
	// none, unless costs depend on it, as with Stashing.
	Brief bool
	// Folded makes the tasks of the first replica only, to stand for all (see graph.Graph).
	Folded bool
	// Layered says that stages are layers (see graph.Graph).
	Layered bool
	// Pairs says how overlapped pairs run; in clock cycles they are two
	// ordinary actions.
	Pairs Pairing
}

// Foldable reports whether the first replica may stand for all: not where these differ in size, or
// have something from the first. Whether they cost the same is for the graph to tell.
func (p *Pipeline) Foldable() bool {
	return p.Shape.Replicas > 1 && p.Shards == nil && p.Sync.Broadcast == nil
}

// A Boundary is the size in bytes, per sample, of the activations that leave
// a stage and of the gradients that come back.
type Boundary struct{ Forward, Backward int64 }

// Tied is a parameter tensor that several stages hold a copy of.
type Tied struct {
	Stages []int
	Bytes  int64 // of the gradient
}

// Graph wires the pipeline: every replica's compute tasks in order, a message
// after each task whose result another rank needs, the gradient sums and the
// optimizer.
//
// A message goes on a stream of its own for that neighbour and direction, in
// the order in which the rank computes. (In another order, microbatch by
// microbatch say, an in-order stream deadlocks.)
func (p Pipeline) Graph() (*graph.Graph, error) { return new(Builder).Graph(p) }

// fill puts values in place of those that are left out or implied by others.
func (p *Pipeline) fill() {
	if p.Placement.First == nil {
		p.Placement = graph.InOrder(p.Shape.Ranks)
	}
	p.Shape.Replicas, p.Shape.Virtual = max(1, p.Shape.Replicas), max(1, p.Shape.Virtual)
	p.Sync = p.Sync.Derived()
	p.Brief = p.Brief && !p.Stashing
	if p.Synchronous || !p.Order.Paired() {
		p.Pairs = Serial
	}
}
