package memory

import (
	"psim/schedules/graph"
)

// collective returns how a collective changes the live bytes of each of its ranks. The flats of a
// unit of ZeRO 3 are gathered or scattered one after another. Updated parameters need no other
// memory, because they are gathered where they lie.
func (l *Ledger) collective(t *graph.Task) (start, end Breakdown) {
	staged := l.staged
	r, inGroups := ring{ranks: int64(l.graph.Members(t.Peer))}, staged.Zero >= 3 && l.graph.Sharing.Span > 0
	var left int64 // of a scatter, until the sum of shares has ended
	switch {
	case t.Kind == graph.AllGather && t.Microbatch == graph.None: // updated parameters
	case t.Kind == graph.AllGather:
		for _, f := range l.stages[t.Stage].travels[t.Part] {
			if f.Narrow > 0 || f.Frozen > 0 {
				r.gather(staged.UnitBytes(f), 1)
				continue
			}
			r.gather(f.Parameters, staged.PerParameter.Parameter)
		}
	case inGroups && l.graph.Sharing.SumsShares(t.Peer):
		for _, f := range l.stages[t.Stage].travels[t.Part] {
			r.sum(f.Stored/staged.Sharers(3), staged.PerParameter.Gradient, true)
		}
	case staged.Zero < 3 || t.Stage == graph.None:
		scattered := staged.Zero >= 2 && t.Stage != graph.None
		r.sum(t.Bytes/staged.PerParameter.Gradient, staged.PerParameter.Gradient, scattered)
	default:
		for _, f := range l.stages[t.Stage].travels[t.Part] {
			r.sum(f.Parameters, staged.PerParameter.Gradient, !staged.SumOnce)
			if inGroups {
				left += f.Stored / staged.Sharers(3) * staged.PerParameter.Gradient
			}
		}
	}
	start, end = r.bytes()
	end.Gradients += left
	return start, end
}

// bytes divides the change between tensors that the collective makes or frees, and its buffers,
// which exist only while it runs.
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

// ring follows the live bytes of a rank through ring collectives (see collective.Call). A tensor
// is padded with zeros and cut into one chunk for each rank. A rank receives one chunk at a
// time, which it adds to its own or stores.
type ring struct {
	change
	ranks int64
}

// chunk returns the elements of a chunk.
func (r *ring) chunk(elements int64) int64 { return (elements + r.ranks - 1) / r.ranks }

// gather gathers a tensor; the rank's own chunk is counted elsewhere.
func (r *ring) gather(elements, bytes int64) {
	most := max((r.ranks-1)*r.chunk(elements), elements) * bytes
	r.then(most, elements*bytes-most)
}

// sum adds a tensor up over the ranks. It frees the tensor if the rank keeps its sum elsewhere.
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
