package order

import (
	"fmt"
	"strings"
)

// A HangError says where every rank is blocked when an order with messages hangs.
type HangError struct {
	Order Order
	// At is the index of the action at which every rank is blocked, or the length of its
	// row if the rank has finished.
	At []int
	// Arrived counts the messages that have arrived, Messages all of them.
	Arrived, Messages int
}

// Error names, for every rank that has not finished, the action at which it is blocked,
// and why.
func (e *HangError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "hangs after %d of %d messages", e.Arrived, e.Messages)
	const most = 16
	shown := 0
	for r, i := range e.At {
		if i == len(e.Order[r]) {
			continue
		}
		if shown++; shown > most {
			b.WriteString("\n  …")
			break
		}
		a := e.Order[r][i]
		fmt.Fprintf(&b, "\n  rank %d is blocked at step %d, %s: %s", r, i, a, e.reason(a))
	}
	return b.String()
}

// reason says what a rank that is blocked at a message waits for.
func (e *HangError) reason(a Action) string {
	end := a.otherEnd()
	for r, actions := range e.Order {
		for i, b := range actions {
			if b == end && e.At[r] < len(actions) {
				return fmt.Sprintf("rank %d has not reached %s, its step %d; it is blocked at %s",
					r, end, i, actions[e.At[r]])
			}
		}
	}
	return fmt.Sprintf("no rank has %s", end)
}

// Hang runs an order with messages as a program on every rank would, one action
// after another, and returns a *HangError if it does not finish. A RECV waits for its
// SEND. A SEND returns at once, as with a buffer; if blocking is set, it waits until its
// receiver has reached the RECV, as in a rendezvous. In an order with waits it is the
// WAIT_SEND that waits, not the SEND.
func (o Order) Hang(blocking bool) error {
	h := hangState{
		order: o, blocking: blocking, asynchronous: o.HasWaits(), at: make([]int, len(o)),
		rankOf: map[Action]int{}, done: map[Action]bool{}, waits: map[Action][]int{},
	}
	messages := 0
	for r, actions := range o {
		h.runnable = append(h.runnable, r)
		for _, a := range actions {
			if isReceive(a.Kind) || isSend(a.Kind) {
				h.rankOf[a] = r
			}
			if isReceive(a.Kind) {
				messages++
			}
		}
	}
	for len(h.runnable) > 0 {
		r := h.runnable[len(h.runnable)-1]
		h.runnable = h.runnable[:len(h.runnable)-1]
		h.advance(r)
	}
	for r, actions := range o {
		if h.at[r] < len(actions) {
			return &HangError{Order: o, At: h.at, Arrived: h.arrived, Messages: messages}
		}
	}
	return nil
}

// hangState holds the state of one Hang call.
type hangState struct {
	order        Order
	blocking     bool
	asynchronous bool            // a SEND blocks at its WAIT
	at           []int           // by rank
	rankOf       map[Action]int  // the rank of every SEND and RECV
	done         map[Action]bool // SENDs and RECVs that no rank need wait for any more
	arrived      int
	runnable     []int            // ranks that may go on
	waits        map[Action][]int // waiting ranks, by the SEND or RECV that they wait for
}

// advance runs a rank until it has to wait, and wakes ranks that waited for it.
func (h *hangState) advance(rank int) {
	for ; h.at[rank] < len(h.order[rank]); h.at[rank]++ {
		a := h.order[rank][h.at[rank]]
		end := a.otherEnd()
		switch {
		case a.Kind.Pass(), isSharding(a.Kind), isWait(a.Kind) && !h.blocking:
		case h.blocking && !h.asynchronous:
			if !h.reached(end) {
				h.wait(rank, end)
				h.wake(a) // ranks that wait for this one to reach a
				return
			}
			h.at[h.rankOf[end]]++
			h.runnable = append(h.runnable, h.rankOf[end])
			h.arrived++
		case isSend(a.Kind):
			h.done[a] = true
			h.wake(a)
		default: // a RECV waits for its SEND, a WAIT for the RECV
			if !h.done[end] {
				h.wait(rank, end)
				return
			}
			if isReceive(a.Kind) {
				h.done[a] = true
				h.wake(a)
				h.arrived++
			}
		}
	}
}

func (h *hangState) wait(rank int, end Action) { h.waits[end] = append(h.waits[end], rank) }

// wake lets the ranks go on that wait for an end of a message.
func (h *hangState) wake(end Action) {
	h.runnable = append(h.runnable, h.waits[end]...)
	delete(h.waits, end)
}

// reached reports whether the rank of one end of a message is at that action now.
func (h *hangState) reached(end Action) bool {
	r, ok := h.rankOf[end]
	return ok && h.at[r] < len(h.order[r]) && h.order[r][h.at[r]] == end
}
