package order

import (
	"fmt"
	"strings"
)

// A HangError says where every rank stands when an order with messages comes to
// a halt.
type HangError struct {
	Order Order
	// At is the action that every rank stands at, and the length of its row
	// where it is done.
	At []int
	// Messages that have arrived, and of how many.
	Arrived, Messages int
}

// Error names, for every rank that is not done, what it stands at and why.
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
		fmt.Fprintf(&b, "\n  rank %d stands at step %d, %s: %s", r, i, e.Order[r][i], e.reason(r, e.Order[r][i]))
	}
	return b.String()
}

// reason says what a rank that stands at a message waits for.
func (e *HangError) reason(rank int, a Action) string {
	end := a.otherEnd()
	for r, actions := range e.Order {
		for i, b := range actions {
			if b == end && e.At[r] < len(actions) {
				return fmt.Sprintf("rank %d has not come to %s, its step %d; it stands at %s", r, end, i, actions[e.At[r]])
			}
		}
	}
	return fmt.Sprintf("no rank has %s", end)
}

// Hang runs an order with messages as a program on every rank would, one action
// after another, and returns a *HangError if it does not come to its end. A RECV
// waits for its SEND. A SEND is done at once, if there is a buffer for what it
// sends; if blocking, it lasts until its receiver stands at the RECV, as a
// rendezvous does.
func (o Order) Hang(blocking bool) error {
	h := hanging{order: o, blocking: blocking, at: make([]int, len(o)), rankOf: map[Action]int{}, sent: map[Action]bool{}, waits: map[Action][]int{}}
	messages := 0
	for r, actions := range o {
		h.due = append(h.due, r)
		for _, a := range actions {
			if receives(a.Kind) || sends(a.Kind) {
				h.rankOf[a] = r
			}
			if receives(a.Kind) {
				messages++
			}
		}
	}
	for len(h.due) > 0 {
		r := h.due[len(h.due)-1]
		h.due = h.due[:len(h.due)-1]
		h.advance(r)
	}
	for r, actions := range o {
		if h.at[r] < len(actions) {
			return &HangError{Order: o, At: h.at, Arrived: h.arrived, Messages: messages}
		}
	}
	return nil
}

// hanging holds the state of one Hang call.
type hanging struct {
	order    Order
	blocking bool
	at       []int          // by rank
	rankOf   map[Action]int // of every message's two ends
	sent     map[Action]bool
	arrived  int
	due      []int            // ranks that may go on
	waits    map[Action][]int // ranks that wait, by the message's end that they wait for
}

// advance takes a rank as far as it goes alone or with those it meets, after which
// others may go on.
func (h *hanging) advance(rank int) {
	for ; h.at[rank] < len(h.order[rank]); h.at[rank]++ {
		a := h.order[rank][h.at[rank]]
		end := a.otherEnd()
		switch {
		case a.Kind.Compute(), shards(a.Kind):
		case h.blocking:
			if !h.meets(end) {
				h.wait(rank, end)
				h.wake(a) // who waits for this rank to stand here
				return
			}
			h.at[h.rankOf[end]]++
			h.due = append(h.due, h.rankOf[end])
			h.arrived++
		case sends(a.Kind):
			h.sent[a] = true
			h.wake(a)
		default:
			if !h.sent[end] {
				h.wait(rank, end)
				return
			}
			h.arrived++
		}
	}
}

func (h *hanging) wait(rank int, end Action) { h.waits[end] = append(h.waits[end], rank) }

// wake lets those go on that wait for an end of a message.
func (h *hanging) wake(end Action) {
	h.due = append(h.due, h.waits[end]...)
	delete(h.waits, end)
}

// meets reports whether the rank at the other end of a message stands at it.
func (h *hanging) meets(end Action) bool {
	r, ok := h.rankOf[end]
	return ok && h.at[r] < len(h.order[r]) && h.order[r][h.at[r]] == end
}
