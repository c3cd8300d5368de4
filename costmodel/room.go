package costmodel

import "psim/schedules"

// room is how the memory of a rank changes in the course of a task: the most on
// the way and what is left, above where it began.
type room struct{ peak, level int64 }

// then goes on: bytes are needed, of which some are given back.
func (r *room) then(start, end int64) {
	r.peak = max(r.peak, r.level+start)
	r.level += start + end
}

// set gives a task's cost the bytes.
func (r room) set(c *schedules.Cost) {
	c.BytesAtStart, c.BytesAtEnd = r.peak, r.level-r.peak
}

// rooms are those of a stage's tasks for one size of microbatch; slices are by
// part.
type rooms struct {
	forward, input, backward, weight room
	backwards, weights               []room
}

// followMemory goes through the segments of every stage, pass by pass.
func (p *pricer) followMemory() {
	p.rooms = make([][]rooms, len(p.prices))
	for s := range p.prices {
		for size := range p.sizes {
			segments := p.prices[s][size].segments
			r := rooms{forward: p.forwardRoom(s, size), input: p.inputRoom(s, size)}
			for k := len(segments) - 1; k >= 0; k-- {
				g := &segments[k]
				for len(r.weights) <= int(g.part) {
					r.backwards, r.weights = append(r.backwards, room{}), append(r.weights, room{})
				}
				for _, b := range []*room{&r.backward, &r.backwards[g.part]} {
					start, end := p.backwardBytes(s, size, k)
					b.then(start, end)
				}
				for _, w := range []*room{&r.weight, &r.weights[g.part]} {
					w.then(0, -g.keptForWeight-g.recomputedForWeight-g.between)
				}
			}
			for len(r.weights) < len(p.buckets[s]) {
				r.backwards, r.weights = append(r.backwards, room{}), append(r.weights, room{})
			}
			p.rooms[s] = append(p.rooms[s], r)
		}
	}
}

// before is the segment whose result a segment gets; nil for the first of all.
func (p *pricer) before(s, size, k int) *segment {
	if k > 0 {
		return &p.prices[s][size].segments[k-1]
	}
	if s == 0 {
		return nil
	}
	return p.prices[s-1][size].last()
}

// forwardRoom goes through F: a segment takes over the buffer its input came in,
// or frees it at its end, and makes room for what it keeps and its output.
func (p *pricer) forwardRoom(s, size int) (r room) {
	for k, g := range p.prices[s][size].segments {
		var given int64
		if b := p.before(s, size, k); b != nil {
			given = b.output
			if message := k == 0 && !p.sameRank(s); message || p.shares(s, size, k) {
				given = b.result
			}
		}
		start, end := g.keptForInput+g.keptForWeight+g.output, int64(0)
		if g.inputs == notShared && !g.idle {
			end -= given
		} else {
			start -= given
		}
		r.then(start, end)
	}
	return r
}

// inputRoom goes through I: a segment makes room for the gradient it hands on,
// and frees the one it received.
func (p *pricer) inputRoom(s, size int) (r room) {
	segments := p.prices[s][size].segments
	for k := len(segments) - 1; k >= 0; k-- {
		g := &segments[k]
		end := g.recomputedForWeight + g.between - g.keptForInput - g.inputPeak - g.result
		if k > 0 && p.shares(s, size, k) && g.inputs == untilInput {
			end += segments[k-1].result
		}
		if k+1 < len(segments) && p.shares(s, size, k+1) && segments[k+1].inputs == untilWeight {
			end += g.result // W is still to come
		}
		r.then(p.received(s, size, k)+g.inputPeak, end)
	}
	return r
}

// backwardBytes are those of B of one segment.
func (p *pricer) backwardBytes(s, size, k int) (start, end int64) {
	g := &p.prices[s][size].segments[k]
	end = -g.keptForInput - g.keptForWeight - g.backwardPeak - g.result
	if k > 0 && p.shares(s, size, k) {
		end += p.received(s, size, k)
	}
	return p.received(s, size, k) + g.backwardPeak, end
}

// received is the size of a segment's input, and of the gradient it hands on.
func (p *pricer) received(s, size, k int) int64 {
	if b := p.before(s, size, k); b != nil {
		return b.result
	}
	return 0
}

// sameRank reports whether no message brings a stage's input.
func (p *pricer) sameRank(s int) bool {
	return p.workload.StageRank[s-1] == p.workload.StageRank[s]
}

// shares reports whether a segment's input and the result that the one before
// keeps are one tensor.
func (p *pricer) shares(s, size, k int) bool {
	b := p.before(s, size, k)
	return b != nil && (k > 0 || p.sameRank(s)) && b.keepsOutput && p.prices[s][size].segments[k].inputs != notShared
}
