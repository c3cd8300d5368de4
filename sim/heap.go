package sim

import "time"

// An event is a task that queues for a link from the time it is ready.
type event struct {
	ready               time.Duration
	task, cause, stream int32
}

func (a event) before(b event) bool {
	return a.ready < b.ready || a.ready == b.ready && a.task < b.task
}

// A heap holds events, the earliest first, with four children to a parent. It stores events by
// value, because container/heap takes twice the time.
type heap struct{ events []event }

func (h *heap) push(ev event) {
	h.events = append(h.events, ev)
	i := len(h.events) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !ev.before(h.events[parent]) {
			break
		}
		h.events[i] = h.events[parent]
		i = parent
	}
	h.events[i] = ev
}

func (h *heap) pop() event {
	first := h.events[0]
	n := len(h.events) - 1
	ev := h.events[n]
	h.events = h.events[:n]
	if n > 0 {
		h.sink(ev)
	}
	return first
}

// sink puts an event at the root and moves it down to its place.
func (h *heap) sink(ev event) {
	i, n := 0, len(h.events)
	for {
		first := 4*i + 1
		child := first
		if first >= n {
			break
		}
		for c := first + 1; c < min(first+4, n); c++ {
			if h.events[c].before(h.events[child]) {
				child = c
			}
		}
		if !h.events[child].before(ev) {
			break
		}
		h.events[i] = h.events[child]
		i = child
	}
	h.events[i] = ev
}
