package order

import (
	"fmt"

	"psim/schedules/graph"
)

// isWritten reports whether a written order may have actions of kind k: compute actions,
// messages and collectives. A SEND has the number of the sender's stage, a RECV that of
// the receiver's: 1SEND_F0 arrives as 2RECV_F0.
func isWritten(k graph.Kind) bool {
	return k.Pass() || isReceive(k) || isSend(k) || isWait(k) || isSharding(k)
}

func isSend(k graph.Kind) bool    { return k == graph.SendForward || k == graph.SendBackward }
func isReceive(k graph.Kind) bool { return k == graph.ReceiveForward || k == graph.ReceiveBackward }
func isWait(k graph.Kind) bool    { return k == graph.WaitForward || k == graph.WaitBackward }

// isSharding reports whether k is a collective that PyTorch writes for every stage, once
// or more, without a microbatch. In PyTorch it has an effect only if the stage's
// parameters are sharded or replicated. Graphs ignore it: wiring adds the collectives
// that parallel.zero and parallel.data demand.
func isSharding(k graph.Kind) bool {
	return k == graph.Unshard || k == graph.Reshard || k == graph.ReduceGradient || k == graph.WaitGradient
}

// HasSharding reports whether the order has any UNSHARD, RESHARD or REDUCE_GRAD.
func (o Order) HasSharding() bool {
	return o.contains(func(a Action) bool { return isSharding(a.Kind) })
}

// HasMessages reports whether the order says when messages are sent and
// received. Orders of the catalog do not.
func (o Order) HasMessages() bool {
	return o.contains(func(a Action) bool { return isSend(a.Kind) || isReceive(a.Kind) || isWait(a.Kind) })
}

// Compute returns the order without its messages and collectives.
func (o Order) Compute() Order {
	compute := make(Order, len(o))
	for r, actions := range o {
		for _, a := range actions {
			if a.Kind.Pass() {
				compute[r] = append(compute[r], a)
			}
		}
	}
	return compute
}

// WithMessages adds a SEND right after every result that another rank needs, and its
// RECV at the receiver's current position if the ranks take turns, one action each:
// PyTorch's rule for its compute_comms form. Such an order never hangs, even if a send
// waits until it is received. If the order is illegal, the error is an *Error.
// Overlapped pairs become two actions.
func (o Order) WithMessages() (Order, error) {
	p, err := o.checkRunnable()
	if err != nil {
		return nil, err
	}
	t := messageState{
		order: o, placement: p, next: make([]int, len(o)), all: make(Order, len(o)),
		delivered: map[Action]bool{}, waits: map[Action]int{}, waiting: make([]bool, len(o)),
	}
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

// messageState holds the state of one WithMessages call.
type messageState struct {
	order     Order
	placement graph.Placement
	next      []int // by rank
	all       Order
	delivered map[Action]bool // RECVs, and results that stay on their rank
	waits     map[Action]int  // the waiting rank, by the action that it waits for
	waiting   []bool          // by rank
}

// take appends a rank's next action and its messages, unless it has to wait.
func (t *messageState) take(rank int) bool {
	a := t.order[rank][t.next[rank]]
	a.Pair = false
	_, need := a.Needs(t.placement.Stages())
	if receive, needed := a.receive(t.placement); needed {
		need = receive
	}
	if need.Stage != graph.None && !t.delivered[need] {
		t.waits[need], t.waiting[rank] = rank, true
		return false
	}
	t.next[rank]++
	t.all[rank] = append(t.all[rank], a)
	t.deliver(a.result())
	if send, leaves := a.Send(t.placement); leaves {
		receive := send.otherEnd()
		to := t.placement.Rank(receive.Stage, receive.Microbatch)
		t.all[rank], t.all[to] = append(t.all[rank], send), append(t.all[to], receive)
		t.deliver(receive)
	}
	return true
}

// deliver notes a result and lets the rank go on that waits for it.
func (t *messageState) deliver(made Action) {
	t.delivered[made] = true
	if rank, ok := t.waits[made]; ok {
		t.waiting[rank] = false
	}
}

// WithLateReceives adds a SEND right after every result that another rank needs
// and a RECV right before its use, as a simple program would. Overlapped pairs
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

// checkRunnable returns the placement of the stages, or an error if an order of compute
// actions cannot run to its end.
func (o Order) checkRunnable() (graph.Placement, error) {
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

// CheckMessages returns an *Error for the first message that is in the wrong place or
// missing: not between two ranks, repeated, sent before its result exists, received after
// its use, or, in an order with waits, not waited for. The compute actions must be valid.
func (o Order) CheckMessages(p graph.Placement) error {
	seen, waits := map[Action]bool{}, o.HasWaits()
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
				problem := fmt.Sprintf("%s, which sends the result of %s, is missing", send, a)
				return &Error{Rank: r, Index: i, Order: o, Problem: problem}
			}
			if wait := a.wait(); waits && isSend(a.Kind) && !seen[wait] {
				problem := fmt.Sprintf("%s has no %s after it, which PyTorch needs from 2.15 on", a, wait)
				return &Error{Rank: r, Index: i, Order: o, Problem: problem}
			}
		}
	}
	return nil
}

// checkMessage returns the problem of an action, given the actions before it on its
// rank, or "".
func checkMessage(a Action, p graph.Placement, rank int32, seen map[Action]bool) string {
	if isSharding(a.Kind) {
		return ""
	}
	if a.Kind.Pass() {
		if receive, needed := a.receive(p); needed && !seen[receive] {
			return fmt.Sprintf("%s needs a %s before it, which receives its input", a, receive)
		}
		return ""
	}
	end, maker := a.otherEnd(), a.on(a.Stage, graph.Forward)
	if a.Kind == graph.SendBackward {
		maker.Kind = graph.Backward
	}
	switch {
	case int(a.Stage) < p.Stages() && p.Rank(a.Stage, a.Microbatch) != rank:
		return fmt.Sprintf("%s: stage %d belongs to rank %d; a SEND has the sender's stage, a RECV the receiver's",
			a, a.Stage, p.Rank(a.Stage, a.Microbatch))
	case int(a.Stage) >= p.Stages() || end.Stage < 0 || int(end.Stage) >= p.Stages():
		return fmt.Sprintf("%s is a message from or to a stage that does not exist; the stages are 0 to %d",
			a, p.Stages()-1)
	case p.Rank(end.Stage, a.Microbatch) == rank:
		return fmt.Sprintf("%s: stages %d and %d are both on rank %d, so there is nothing to send",
			a, a.Stage, end.Stage, rank)
	case seen[a]:
		return fmt.Sprintf("%s appears twice", a)
	case isWait(a.Kind) && !seen[a.sent()]:
		return fmt.Sprintf("%s has no %s before it, for which it waits", a, a.sent())
	case isSend(a.Kind) && !seen[maker]:
		return fmt.Sprintf("%s comes before %s, whose result it sends", a, maker)
	}
	return ""
}
