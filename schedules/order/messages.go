package order

import (
	"fmt"

	"psim/schedules/graph"
)

// written reports whether actions of kind k stand in a written order: compute
// actions, and what brings their results to other ranks. A SEND is numbered by
// the sender's stage, a RECV by the receiver's: 1SEND_F0 arrives as 2RECV_F0.
func written(k graph.Kind) bool { return k.Compute() || receives(k) || sends(k) || shards(k) }

func sends(k graph.Kind) bool    { return k == graph.SendForward || k == graph.SendBackward }
func receives(k graph.Kind) bool { return k == graph.ReceiveForward || k == graph.ReceiveBackward }

// shards reports whether k is a collective that PyTorch writes for every stage,
// once or more, without a microbatch. It does nothing there unless the stage's
// parameters are sharded or copied, and never anything in a graph, whose wiring
// adds what parallel.zero and parallel.data demand.
func shards(k graph.Kind) bool {
	return k == graph.Unshard || k == graph.Reshard || k == graph.ReduceGradient
}

// HasSharding reports whether the order has any of these collectives.
func (o Order) HasSharding() bool { return o.has(func(a Action) bool { return shards(a.Kind) }) }

// HasMessages reports whether the order says when messages are sent and
// received. Those of schedules do not: they say what is computed.
func (o Order) HasMessages() bool {
	return o.has(func(a Action) bool { return sends(a.Kind) || receives(a.Kind) })
}

// Compute is the order without its messages and collectives.
func (o Order) Compute() Order {
	compute := make(Order, len(o))
	for r, actions := range o {
		for _, a := range actions {
			if a.Kind.Compute() {
				compute[r] = append(compute[r], a)
			}
		}
	}
	return compute
}

// WithMessages adds a SEND right after every result that another rank needs,
// and its RECV where the receiver has come to by then, if the ranks take one
// action each in turn: PyTorch's rule for its compute_comms form. No rank then
// waits in a circle, even if a send lasts until it is received. Without a legal
// order it fails with an *Error. Overlapped pairs become two actions.
func (o Order) WithMessages() (Order, error) {
	p, err := o.runnable()
	if err != nil {
		return nil, err
	}
	t := taking{order: o, placement: p, next: make([]int, len(o)), all: make(Order, len(o)), seen: map[Action]bool{}, waits: map[Action]int{}, waiting: make([]bool, len(o))}
	for taken := true; taken; {
		taken = false
		for r, actions := range o {
			if !t.waiting[r] && t.next[r] < len(actions) {
				taken = t.take(r) || taken
			}
		}
	}
	return t.all, nil
}

// taking holds the state of one WithMessages call.
type taking struct {
	order     Order
	placement graph.Placement
	next      []int // by rank
	all       Order
	seen      map[Action]bool // RECVs, and results that stay on their rank
	waits     map[Action]int  // the rank that waits, by what for
	waiting   []bool          // by rank
}

// take takes a rank's next action, unless it has to wait.
func (t *taking) take(rank int) bool {
	a := t.order[rank][t.next[rank]]
	a.Pair = false
	_, need := a.Needs(t.placement.Stages())
	if receive, needed := a.receive(t.placement); needed {
		need = receive
	}
	if need.Stage != graph.None && !t.seen[need] {
		t.waits[need], t.waiting[rank] = rank, true
		return false
	}
	t.next[rank]++
	t.all[rank] = append(t.all[rank], a)
	t.see(a.result())
	if send, leaves := a.Send(t.placement); leaves {
		receive := send.otherEnd()
		to := t.placement.Rank(receive.Stage, receive.Microbatch)
		t.all[rank], t.all[to] = append(t.all[rank], send), append(t.all[to], receive)
		t.see(receive)
	}
	return true
}

// see lets the rank go on that waits for what is made.
func (t *taking) see(made Action) {
	t.seen[made] = true
	if rank, ok := t.waits[made]; ok {
		t.waiting[rank] = false
	}
}

// WithLateReceives adds a SEND right after every result that another rank needs
// and a RECV right before its use, as a plain program has them. Overlapped pairs
// become two actions.
func (o Order) WithLateReceives() (Order, error) {
	p, err := o.Placement()
	if err != nil {
		return nil, err
	}
	all := make(Order, len(o))
	for r, actions := range o {
		for _, a := range actions {
			if receive, needed := a.receive(p); needed {
				all[r] = append(all[r], receive)
			}
			a.Pair = false
			all[r] = append(all[r], a)
			if send, leaves := a.Send(p); leaves {
				all[r] = append(all[r], send)
			}
		}
	}
	return all, nil
}

// runnable reports what keeps an order of compute actions from being run to its
// end, and where the stages are if nothing does.
func (o Order) runnable() (graph.Placement, error) {
	p, err := o.Placement()
	if err != nil {
		return p, err
	}
	compute := o
	if !o.HasMessages() {
		compute = o.Compute()
	}
	if err := compute.Validate(p, o.Microbatches()); err != nil {
		return p, err
	}
	_, err = compute.Clocks()
	return p, err
}

// CheckMessages reports the first message that is in the wrong place: not
// between ranks, there twice, sent before there is a result, received after its
// use; or that is missing. The compute actions must be valid.
func (o Order) CheckMessages(p graph.Placement) error {
	seen := map[Action]bool{}
	for r, actions := range o {
		for i, a := range actions {
			problem := checkMessage(a, p, int32(r), seen)
			if problem != "" {
				return &Error{Rank: r, Index: i, Problem: problem, Order: o}
			}
			seen[a], seen[a.result()] = true, true
		}
	}
	for r, actions := range o {
		for i, a := range actions {
			if send, leaves := a.Send(p); leaves && !seen[send] {
				return &Error{Rank: r, Index: i, Order: o, Problem: fmt.Sprintf("%s is missing, which sends what %s makes", send, a)}
			}
		}
	}
	return nil
}

// checkMessage returns what is wrong with an action, given those before it on
// its rank.
func checkMessage(a Action, p graph.Placement, rank int32, seen map[Action]bool) string {
	if shards(a.Kind) {
		return ""
	}
	if a.Kind.Compute() {
		if receive, needed := a.receive(p); needed && !seen[receive] {
			return fmt.Sprintf("%s has no %s before it, which brings what it needs", a, receive)
		}
		return ""
	}
	end, maker := a.otherEnd(), a.on(a.Stage, graph.Forward)
	if a.Kind == graph.SendBackward {
		maker.Kind = graph.Backward
	}
	switch {
	case int(a.Stage) < p.Stages() && p.Rank(a.Stage, a.Microbatch) != rank:
		return fmt.Sprintf("%s: stage %d belongs to rank %d; a SEND has the sender's stage, a RECV the receiver's", a, a.Stage, p.Rank(a.Stage, a.Microbatch))
	case int(a.Stage) >= p.Stages() || end.Stage < 0 || int(end.Stage) >= p.Stages():
		return fmt.Sprintf("%s is a message from or to a stage that does not exist; the stages are 0 to %d", a, p.Stages()-1)
	case p.Rank(end.Stage, a.Microbatch) == rank:
		return fmt.Sprintf("%s: stages %d and %d are both on rank %d, so there is nothing to send", a, a.Stage, end.Stage, rank)
	case seen[a]:
		return fmt.Sprintf("%s appears twice", a)
	case sends(a.Kind) && !seen[maker]:
		return fmt.Sprintf("%s comes before %s, whose result it sends", a, maker)
	}
	return ""
}
