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
	"fmt"

	"psim/internal/ram"
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
	// Alone makes the tasks of the first replica only. Groups have the ranks of all.
	Alone bool
	// Layered says that stages are layers (see graph.Graph).
	Layered bool
	// Pairs says how overlapped pairs run; in clock cycles they are two
	// ordinary actions.
	Pairs Pairing
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
func (p Pipeline) Graph() (*graph.Graph, error) {
	p.fill()
	if err := p.check(); err != nil {
		return nil, err
	}
	whole, err := p.arrange()
	if err != nil {
		return nil, err
	}
	size := p.size()
	if err := checkTasks(size); err != nil {
		return nil, err
	}
	turns, err := p.turns(whole)
	if err != nil {
		return nil, err
	}
	cycles, err := p.cycles(turns)
	if err != nil {
		return nil, err
	}
	if err := ram.CheckTasks(float64(size)); err != nil {
		return nil, err
	}
	g := &graph.Graph{Name: p.Name, Shape: p.Shape, Placement: p.Placement, Stashing: p.Stashing, Layered: p.Layered}
	g.Grow(int(size), int(size)+int(size)/2)
	b := newBuilder(&p, g, cycles)
	c := connector{builder: b, whole: whole, turns: turns}
	for d := range p.made() {
		first := len(g.Tasks)
		cycles.restart()
		for r := range p.Order {
			b.rank(d, r)
		}
		c.connect(first)
	}
	return g, nil
}

// checkTasks refuses more tasks than can be numbered.
func checkTasks(n int64) error {
	if n > graph.MaxTasks {
		return fmt.Errorf("the graph would have %d tasks; at most %d are supported: use fewer microbatches, stages or replicas", n, graph.MaxTasks)
	}
	return nil
}

// fill puts values in place of those that are left out or implied by others.
func (p *Pipeline) fill() {
	if p.Placement.First == nil {
		p.Placement = graph.InOrder(p.Shape.Ranks)
	}
	p.Shape.Replicas, p.Shape.Virtual = max(1, p.Shape.Replicas), max(1, p.Shape.Virtual)
	p.Sync = p.Sync.Derived()
	if p.Synchronous || !p.Order.Paired() {
		p.Pairs = Serial
	}
}

// size counts the tasks.
func (p *Pipeline) size() int64 {
	var n int64
	for _, actions := range p.Order {
		for _, a := range actions {
			n += p.tasksOf(a)
		}
		if p.Optimizer && !p.Stashing {
			n++
		}
	}
	for _, t := range p.Tied {
		if ranks := p.tiedRanks(t); len(ranks) > 1 {
			n += int64(len(ranks))
		}
	}
	return (n + p.syncTasks()) * int64(p.made())
}

// made counts the replicas whose tasks are made.
func (p *Pipeline) made() int {
	if p.Alone {
		return 1
	}
	return p.Shape.Replicas
}

// tasksOf counts the tasks of an action without those that only the last of a stage
// has: itself, its message and its update, and what is gathered before or summed
// after every one.
func (p *Pipeline) tasksOf(a order.Action) int64 {
	n := int64(1)
	if p.destination(a) != graph.None {
		n++
	}
	if p.Stashing && p.Optimizer && makesGradients(a.Kind) {
		n++
	}
	n += p.exchanging(a) + int64(len(p.gathers(a)))
	if p.Sync.EveryMicrobatch && p.sums(a.Kind, a.Stage) {
		n += p.leaving(a.Stage)
	}
	return n
}

// syncTasks counts what a replica does once for its share of the gradients: the sums,
// the average, and the gathering of updated parameters.
func (p *Pipeline) syncTasks() int64 {
	if !p.Sync.active(p.Shape) {
		return 0
	}
	n := int64(p.Shape.Ranks)
	for s := range p.Placement.Stages() {
		copies := int64(len(p.Placement.Ranks(s)))
		if !p.Sync.EveryMicrobatch {
			n += copies * p.leaving(int32(s))
		}
		switch pieces := int64(0); {
		case p.Sync.Ahead != nil:
			pieces = int64(len(p.Sync.Ahead[s]))
			n += copies * pieces
			if !p.divided(int32(s)) {
				n += copies * max(0, pieces-1) // parts of the first forward
			}
		case p.Optimizer && !p.Stashing && p.Sync.Sharded && p.Sync.Units == nil:
			n += copies
			if p.Sync.expertParameters(int32(s)) > 0 {
				n += copies
			}
		}
		if p.Sync.Broadcast != nil {
			n += copies * int64(len(p.Sync.Broadcast[s]))
		}
	}
	return n
}
