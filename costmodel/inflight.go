package costmodel

import "psim/schedules/graph"

// collectiveBytes is how a collective changes the memory of each of its ranks
// when it starts and ends. Units of ZeRO 3 travel one after another. Updated
// parameters are gathered in their place and take no room.
func (p *pricer) collectiveBytes(t *graph.Task) (start, end int64) {
	state := p.workload.state()
	r := ringRoom{ranks: int64(len(p.graph.Groups[t.Peer]))}
	switch zero := p.workload.Zero; {
	case t.Kind == graph.AllGather && t.Microbatch == graph.None:
	case t.Kind == graph.AllGather:
		for _, n := range p.units[t.Stage] {
			r.gather(n, state.Parameter)
		}
	case zero < 3 || t.Stage == graph.None:
		r.sum(t.Bytes/state.Gradient, state.Gradient, zero >= 2 && t.Stage != graph.None)
	default:
		for _, n := range p.units[t.Stage] {
			r.sum(n, state.Gradient, true)
		}
	}
	return r.peak, r.level - r.peak
}

// ringRoom follows the memory of a rank through ring collectives (see
// schedules.Ring), in bytes above where it began. A tensor is filled up with
// zeros and cut into one chunk for each rank. A rank has room for one chunk on
// its way to it, until it is added to its own or takes its place.
type ringRoom struct {
	room
	ranks int64
}

func (r *ringRoom) chunk(elements int64) int64 { return (elements + r.ranks - 1) / r.ranks }

// gather makes a tensor of which the rank holds one chunk anyway.
func (r *ringRoom) gather(elements, bytes int64) {
	most := max((r.ranks-1)*r.chunk(elements), elements) * bytes
	r.then(most, elements*bytes-most)
}

// sum adds up a tensor, which is then freed if the rank's own sum is elsewhere.
func (r *ringRoom) sum(elements, bytes int64, frees bool) {
	most := (r.ranks*r.chunk(elements) - elements) * bytes
	if r.ranks > 1 {
		most += r.chunk(elements) * bytes
	}
	r.then(most, -most)
	if frees {
		r.level -= elements * bytes
	}
}
