package memory

import (
	"psim/schedules/graph"
)

// collective says how a collective changes the live bytes of each of its ranks. Units
// of ZeRO 3 travel one after another. Updated parameters are gathered in their
// place.
func (l *Ledger) collective(t *graph.Task) (start, end Breakdown) {
	staged := l.staged
	r := ring{ranks: int64(l.graph.Members(t.Peer))}
	switch {
	case t.Kind == graph.AllGather && t.Microbatch == graph.None:
	case t.Kind == graph.AllGather:
		for _, f := range l.stages[t.Stage].travels[t.Part] {
			if f.Narrow > 0 {
				r.gather(staged.UnitBytes(f), 1)
				continue
			}
			r.gather(f.Parameters, staged.PerParameter.Parameter)
		}
	case staged.Zero < 3 || t.Stage == graph.None:
		r.sum(t.Bytes/staged.PerParameter.Gradient, staged.PerParameter.Gradient, staged.Zero >= 2 && t.Stage != graph.None)
	default:
		for _, f := range l.stages[t.Stage].travels[t.Part] {
			r.sum(f.Parameters, staged.PerParameter.Gradient, true)
		}
	}
	return r.bytes()
}

// bytes divides the change between what the collective itself needs, which is there
// only as long as it runs, and the tensors that it makes or frees.
func (r *ring) bytes() (start, end Breakdown) {
	if r.left > 0 {
		start.Parameters = r.left
	} else {
		end.Gradients = r.left
	}
	start.Buffers = r.peak - max(r.left, 0)
	end.Buffers = -start.Buffers
	return start, end
}

// ring follows the live bytes of a rank through ring collectives (see
// collective.Call). A tensor is filled up with zeros and cut into one chunk for each
// rank. One chunk is on its way to a rank at a time, until it is added to its own
// or takes its place.
type ring struct {
	change
	ranks int64
}

func (r *ring) chunk(elements int64) int64 { return (elements + r.ranks - 1) / r.ranks }

// gather makes a tensor of which the rank holds one chunk anyway.
func (r *ring) gather(elements, bytes int64) {
	most := max((r.ranks-1)*r.chunk(elements), elements) * bytes
	r.then(most, elements*bytes-most)
}

// sum adds up a tensor, which is then freed if the rank's own sum is elsewhere.
func (r *ring) sum(elements, bytes int64, frees bool) {
	most := (r.ranks*r.chunk(elements) - elements) * bytes
	if r.ranks > 1 {
		most += r.chunk(elements) * bytes
	}
	r.then(most, -most)
	if frees {
		r.left -= elements * bytes
	}
}
