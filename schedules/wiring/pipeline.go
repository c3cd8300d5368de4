package wiring

import (
	"errors"
	"fmt"
	"math"

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
	// Boundaries[s] is what crosses from stage s to s+1 and back, per sample;
	// nil means empty messages.
	Boundaries []Boundary
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
	if p.Placement.First == nil {
		p.Placement = graph.InOrder(p.Shape.Ranks)
	}
	p.Shape.Replicas = max(1, p.Shape.Replicas)
	p.Shape.Virtual = max(1, p.Shape.Virtual)
	p.Sync = p.Sync.withUnits()
	if err := p.check(); err != nil {
		return nil, err
	}
	w := &wiring{
		Pipeline: p,
		paired:   p.Pairs != Serial && !p.Synchronous && p.Order.Paired(),
		graph:    &graph.Graph{Name: p.Name, Shape: p.Shape, Placement: p.Placement, Stashing: p.Stashing},
		last:     p.completions(),
		stagesOn: p.stagesByRank(),
		forward:  make([]int32, p.Placement.Stages()*p.Shape.Microbatches),
		backward: make([]int32, p.Placement.Stages()*p.Shape.Microbatches),
	}
	if err := w.addWholeLast(); err != nil {
		return nil, err
	}
	size := w.size()
	if size > graph.MaxTasks {
		return nil, fmt.Errorf("the graph would have %d tasks; at most %d are supported: use fewer microbatches, stages or replicas", size, graph.MaxTasks)
	}
	if err := w.addIssue(); err != nil {
		return nil, err
	}
	if err := w.addClocks(); err != nil {
		return nil, err
	}
	w.graph.Grow(int(size), int(size)+int(size)/2)
	w.addGroups()
	for d := range p.Shape.Replicas {
		first := len(w.graph.Tasks)
		w.clocks.restart()
		for r := range p.Order {
			w.rank(d, r)
		}
		w.connect(first)
	}
	return w.graph, nil
}

// check validates what the order does not say itself.
func (p Pipeline) check() error {
	switch {
	case p.Shape.Ranks < 1 || p.Shape.Microbatches < 1:
		return fmt.Errorf("%d ranks and %d microbatches: there must be at least one of each", p.Shape.Ranks, p.Shape.Microbatches)
	case p.Shape.Replicas > graph.MaxTasks:
		return fmt.Errorf("%d replicas: at most %d tasks are supported", p.Shape.Replicas, graph.MaxTasks)
	case len(p.Order) != p.Shape.Ranks:
		return fmt.Errorf("the order has %d ranks, the shape %d", len(p.Order), p.Shape.Ranks)
	case p.Samples != nil && len(p.Samples) != p.Shape.Microbatches:
		return fmt.Errorf("%d microbatch sizes for %d microbatches", len(p.Samples), p.Shape.Microbatches)
	case p.Boundaries != nil && len(p.Boundaries) != p.Placement.Stages()-1:
		return fmt.Errorf("%d boundaries for %d stages", len(p.Boundaries), p.Placement.Stages())
	case p.Sync.Units != nil && len(p.Sync.Units) != p.Placement.Stages():
		return fmt.Errorf("sharded units for %d stages; there are %d", len(p.Sync.Units), p.Placement.Stages())
	case p.Sync.Buckets != nil && len(p.Sync.Buckets) != p.Placement.Stages():
		return fmt.Errorf("gradient buckets for %d stages; there are %d", len(p.Sync.Buckets), p.Placement.Stages())
	case p.Optimizer && p.Sync.Sharded && p.Sync.Units == nil && p.Sync.active(p.Shape) && len(p.Sync.Parameters) != p.Placement.Stages():
		return fmt.Errorf("parameter sizes for %d stages; there are %d, and sharding gathers the parameters of each", len(p.Sync.Parameters), p.Placement.Stages())
	}
	for s, buckets := range p.Sync.Buckets {
		if len(buckets) > math.MaxUint16 {
			return fmt.Errorf("stage %d has %d gradient buckets; at most %d are supported: use larger buckets", s, len(buckets), math.MaxUint16)
		}
	}
	for _, r := range p.Placement.First {
		if r < 0 || int(r) >= p.Shape.Ranks {
			return fmt.Errorf("placement on rank %d: the ranks are 0 to %d", r, p.Shape.Ranks-1)
		}
	}
	for i, t := range p.Tied {
		if len(t.Stages) == 0 {
			return fmt.Errorf("tied parameter %d names no stage", i)
		}
		for _, s := range t.Stages {
			if s < 0 || s >= p.Placement.Stages() {
				return errors.New("a tied parameter names a stage that does not exist")
			}
		}
	}
	if err := p.checkCopies(); err != nil {
		return err
	}
	if err := p.checkStashing(); err != nil {
		return err
	}
	return p.Order.Validate(p.Placement, p.Shape.Microbatches)
}

// completions returns, by stage and copy, the index within its rank's order of
// the action that completes its gradients.
func (p *Pipeline) completions() []int {
	last := make([]int, len(p.Placement.First)+len(p.Placement.Second))
	for _, actions := range p.Order {
		for i, a := range actions {
			if a.Kind == graph.Backward || a.Kind == graph.WeightGradient {
				last[p.Placement.Copy(a.Stage, a.Microbatch)] = i
			}
		}
	}
	return last
}

// wiring is the state of one Graph call.
type wiring struct {
	Pipeline
	graph  *graph.Graph
	groups syncGroups
	clocks clockCycles
	issued []order.Action // by stage and microbatch: the backward before; nil without SerialBackward
	whole  [2]int32       // WholeLast: the microbatches that the last but one stage's forwards and the last one's backwards end with
	paired bool           // overlapped pairs are to be wired as such
	last   []int          // completions of the order
	// stagesOn lists the stages of every pipeline rank, last first.
	stagesOn [][]int32
	// forward and backward hold, by stage and microbatch, the task of the
	// replica at hand that produces the activations and the input gradient.
	// Where a message carries them, it is the next task.
	forward, backward []int32
}

// at indexes forward and backward.
func (w *wiring) at(stage, microbatch int32) int {
	return int(stage)*w.Shape.Microbatches + int(microbatch)
}

// size is the number of tasks, or a little more.
func (w *wiring) size() int64 {
	var n int64
	for _, actions := range w.Order {
		n += int64(len(actions)) + 1 // the optimizer
		for _, a := range actions {
			if _, sent := a.Send(w.Placement); sent {
				n++
			}
			if w.Stashing && a.Kind != graph.Forward {
				n++ // an update
			}
		}
	}
	for _, t := range w.Tied {
		n += int64(len(t.Stages))
	}
	return (n + w.Sync.size(w.Shape)) * int64(w.Shape.Replicas)
}

// rankWiring is one rank of one replica while its tasks are added.
type rankWiring struct {
	*wiring
	replica, pipelineRank int
	rank                  int32
	compute               int32              // stream
	beside                int32              // stream, of backwards in overlapped pairs; None until it is needed
	gradients, parameters int32              // streams, None until they are needed
	sends                 map[[2]int32]int32 // streams by neighbour and kind
}

// rank adds all tasks of one rank of one replica.
func (w *wiring) rank(replica, pipelineRank int) {
	rank := int32(replica*w.Shape.Ranks + pipelineRank)
	rw := &rankWiring{
		wiring: w, replica: replica, pipelineRank: pipelineRank, rank: rank,
		compute: w.graph.AddStream(rank, "compute"), beside: graph.None, gradients: graph.None, parameters: graph.None, sends: map[[2]int32]int32{},
	}
	for i, a := range w.Order[pipelineRank] {
		rw.action(i, a)
	}
	rw.tail()
}

// action adds the tasks of an action, the i-th of its rank, and what leaves
// with them: one task, or with overlapping gradients a slice per bucket. Under
// ZeRO 3 the parameters that it uses are gathered first.
func (w *rankWiring) action(i int, a order.Action) {
	if w.gathers(a) {
		w.gather(a)
	}
	buckets, slices := 0, 1
	if w.leaves(i, a) {
		buckets = len(w.Sync.Buckets[a.Stage])
		if w.Sync.Overlap {
			slices = buckets
		}
	}
	stream := w.streamOf(i)
	for part := range slices {
		id := w.add(graph.Task{Kind: a.Kind, Part: uint16(part), Rank: w.rank, Stream: stream, Stage: a.Stage, Microbatch: a.Microbatch, Peer: graph.None})
		if part == slices-1 {
			w.note(a, id)
			if send, leaves := a.Send(w.Placement); leaves {
				id = w.message(send)
			}
			w.clocks.ends(w.pipelineRank, i, id)
		}
		first, end := part, part+1
		if slices == 1 {
			first, end = 0, buckets
		}
		for bucket := first; bucket < end; bucket++ {
			microbatch := int32(graph.None)
			if w.Sync.Units != nil {
				microbatch = a.Microbatch
			}
			w.sum(a.Stage, microbatch, bucket)
		}
	}
	w.update(a)
}

// note remembers which task makes the result of an action.
func (w *wiring) note(a order.Action, id int32) {
	switch a.Kind {
	case graph.Forward:
		w.forward[w.at(a.Stage, a.Microbatch)] = id
	case graph.Backward, graph.InputGradient:
		w.backward[w.at(a.Stage, a.Microbatch)] = id
	}
}

// add appends a task; connect adds its dependencies.
func (w *wiring) add(t graph.Task) int32 {
	w.graph.Tasks = append(w.graph.Tasks, t)
	return int32(len(w.graph.Tasks) - 1)
}
