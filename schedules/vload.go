package schedules

import "psim/schedules/graph"

// A timeline holds, for a rank of a V, the kind of pass in every slot, or None.
type timeline []int8

// kind returns the pass in a slot; beyond the end of the timeline it is None.
func (t timeline) kind(at int) int {
	if at < len(t) {
		return int(t[at])
	}
	return graph.None
}

func (t *timeline) put(at, kind int) {
	for at >= len(*t) {
		*t = append(*t, graph.None)
	}
	(*t)[at] = int8(kind)
}

// trim removes empty slots after the last pass.
func (t *timeline) trim() {
	for n := len(*t); n > 0 && (*t)[n-1] == graph.None; n-- {
		*t = (*t)[:n-1]
	}
}

// holding counts the activations that a rank holds after a slot, and how many of them
// wait for a weight gradient.
type holding struct{ held, waiting int32 }

// after returns what a rank holds after one more slot with a pass of a kind. Without
// weight gradients in the timeline, they are assumed to run in free slots.
func (h holding) after(kind int, withWeights bool) holding {
	switch {
	case kind == passDown || kind == passUp:
		h.held++
	case kind == backUp || kind == backDown:
		h.waiting++
	case kind == passWeight || !withWeights && h.waiting > 0:
		h.held--
		h.waiting--
	}
	return h
}

// A load tracks what a rank holds, slot by slot, while passes move. The cost of trying a
// move is proportional to the number of slots that it changes.
type load struct {
	timeline    timeline
	after       []holding
	withWeights bool
	changed     []holding // slots that the move on trial changes
}

// load returns what a rank with this timeline holds.
func (t timeline) load(withWeights bool) load {
	l := load{timeline: t, after: make([]holding, len(t)), withWeights: withWeights}
	var h holding
	for at, k := range t {
		h = h.after(int(k), withWeights)
		l.after[at] = h
	}
	return l
}

// move moves a pass to an earlier free slot and reports true, unless a weight gradient
// would come before its input gradient, or the rank would hold more than the limit. The
// caller then changes the timeline itself.
func (l *load) move(x pass, to int, limit int32) bool {
	var h holding
	if to > 0 {
		h = l.after[to-1]
	}
	if x.kind == passWeight && h.waiting == 0 {
		return false
	}
	l.changed = l.changed[:0]
	for at := to; at < len(l.timeline); at++ {
		k := int(l.timeline[at])
		switch at {
		case to:
			k = x.kind
		case x.slot:
			k = graph.None
		}
		if h = h.after(k, l.withWeights); h.held > limit {
			return false
		}
		if at >= x.slot && h == l.after[at] {
			break // later slots do not change
		}
		l.changed = append(l.changed, h)
	}
	copy(l.after[to:], l.changed)
	return true
}
