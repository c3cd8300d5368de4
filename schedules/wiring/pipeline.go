// Package wiring turns a compute order into a task graph: [Pipeline.Graph] adds
// dependencies between stages, one message per boundary, microbatch and
// direction, the gradient sums of data-parallel replicas, and the optimizer.
// The same wiring serves every schedule.
//
// Wiring goes in steps: check the pipeline (check.go); rearrange the order around a
// last stage that takes all microbatches at once (wholelast.go); count the tasks (size.go);
// find the turns of serial backwards (turns.go) and the clock cycles of barriers
// (barrier.go); add the tasks of every rank of the first replica (rank.go) with their messages
// (messages.go), all-to-alls (exchange.go), gradient sums and gathers (gradients.go, ahead.go),
// copies to the host (staging.go, offload.go), zeroing and losses (loop.go);
// connect them across ranks (connect.go, pair.go, barrier.go); and copy them for the other
// replicas (replicas.go). Every feature of a pipeline is written once, in the file of its name.
//
// Most tasks differ from another one in their microbatch only. A table (classes.go) has one task
// for each class of these, so that adding a task means to look up its class and to
// append one row to the graph.
package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A Pipeline is a compute order and everything that is needed to turn it into a graph.
type Pipeline struct {
	Name  string
	Shape graph.Shape
	// Placement says on which ranks the stages are. If it is empty, stage s is on rank s.
	Placement graph.Placement
	Order     order.Order
	// Samples is the number of samples in every microbatch; nil means 1.
	Samples []int64
	// Shards is, by replica, the number of samples in each of its microbatches. It replaces
	// Samples where replicas differ, and is nil otherwise.
	Shards []int64
	// Boundaries[s] is the size of the messages from stage s to s+1 and back, per sample;
	// nil means empty messages.
	Boundaries []Boundary
	// Exchanges lists the all-to-alls of every stage; nil if experts are not divided
	// among devices. ExpertSpan is the number of neighbouring replicas that exchange tokens,
	// ExpertWidth the number of devices of each of their ranks in one group; 0 means 1.
	Exchanges               []Exchanges
	ExpertSpan, ExpertWidth int
	// DelayWeights splits every part of a B between all-to-alls into an I and a W. The W runs
	// while the result of the I is exchanged.
	DelayWeights bool
	// Unsplit makes an I of the first stage do nothing, and a W of it what a B does. The order is
	// that of a split backward.
	Unsplit bool
	// Sync says how the gradients of the replicas are summed.
	Sync Sync
	// Tied lists parameters that live on several stages, such as an embedding
	// that is also the output layer: their gradients are summed over them.
	Tied []Tied
	// Optimizer ends the step with one optimizer task per rank.
	Optimizer bool
	// Loop makes zeroing and the loss tasks of their own; nil means that others include them.
	Loop *Loop
	// Offload copies what forwards keep to the host and back; nil if it stays.
	Offload *Offload
	// Synchronous puts a barrier between clock cycles (see Order.Clocks): no
	// compute task starts before all of its replica's in the cycle before have
	// ended, and what they send has arrived.
	Synchronous bool
	// SerialBackward lets no two backwards of a replica run side by side: they
	// run in the reverse of the order in which the forwards are issued, by clock
	// cycle and stage, and each waits for the message of the one before it.
	SerialBackward bool
	// WholeLast makes the last stage begin when all microbatches have arrived, and
	// send gradients when its backwards of all of them have ended. A program does so that
	// pipelines the blocks of a network and then runs its head on the whole batch.
	// The order must have all forwards before the first backward.
	WholeLast bool
	// Stashing makes the Optimizer update a stage after every backward on it, not at
	// the end; backwards use the weights of their forwards (see pipedream). It needs
	// one stage per rank.
	Stashing bool
	// Brief omits the microbatches of tasks, a sixth of the graph's memory. Statistics do not
	// need them. It has no effect with Stashing, where costs depend on them.
	Brief bool
	// Folded makes the tasks of the first replica only, which stand for all (see graph.Graph).
	Folded bool
	// Layered says that stages are layers (see graph.Graph).
	Layered bool
	// FullySharded says that parameters are divided among the replicas, and gathered for every use.
	FullySharded bool
	// Pairs says how overlapped pairs run; in clock cycles they are two
	// ordinary actions.
	Pairs Pairing
}

// Foldable reports whether the tasks of all replicas are alike, so that the first may stand for
// all. [graph.Graph.Alike] reports whether they also cost the same.
func (p *Pipeline) Foldable() bool {
	return p.Shape.Replicas > 1 && p.Shards == nil && p.Sync.Broadcast == nil
}

// unsplit reports whether an action is an I that does nothing, or a W that is a whole backward.
func (p *Pipeline) unsplit(k graph.Kind, stage int32) bool {
	return p.Unsplit && stage == 0 && (k == graph.InputGradient || k == graph.WeightGradient)
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

// fill sets fields that are left out or implied by others.
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
