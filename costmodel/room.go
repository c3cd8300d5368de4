package costmodel

import (
	"slices"

	"psim/schedules/graph"
)

// room is how the memory of a rank changes in the course of a task: the most on
// the way and what is left, above where it began.
type room struct{ peak, level int64 }

// then goes on: bytes are needed, of which some are given back.
func (r *room) then(start, end int64) {
	r.peak = max(r.peak, r.level+start)
	r.level += start + end
}

// set gives a task's cost the bytes.
func (r room) set(c *graph.Cost) {
	c.BytesAtStart, c.BytesAtEnd = r.peak, r.level-r.peak
}

// rooms are those of a stage's tasks for one size of microbatch; slices are by
// part. Those of I and B come twice: the second where the stage's result stays,
// because the W of the next stage on the same rank still needs it.
type rooms struct {
	forward, weight room
	input, backward [2]room
	backwards       [2][]room
	weights         []room
}

// followMemory goes through the segments of every stage, pass by pass.
func (p *pricer) followMemory() {
	p.rooms = make([][]rooms, len(p.prices))
	for s := range p.prices {
		for size := range p.sizes {
			r := rooms{forward: p.forwardRoom(s, size)}
			r.weights = make([]room, max(1, len(p.buckets[s])))
			for held := range 2 {
				r.input[held] = p.inputRoom(s, size, held)
				r.backwards[held] = make([]room, len(r.weights))
				p.followBackward(&r, s, size, held)
			}
			for _, g := range slices.Backward(p.prices[s][size].segments) {
				freed := g.keptForWeight + g.recomputedForWeight + g.between
				r.weight.then(0, -freed)
				r.weights[g.part].then(0, -freed)
			}
			p.rooms[s] = append(p.rooms[s], r)
		}
	}
}

// followBackward goes through B: a segment makes room for the gradient it hands
// on, and frees the one it received. Its input is freed by the segment before if
// that keeps it as its result.
func (p *pricer) followBackward(r *rooms, s, size, held int) {
	for k, g := range slices.Backward(p.prices[s][size].segments) {
		peak := g.backwardPeak[0]
		end := -g.keptForInput - g.keptForWeight - g.result
		if held == 1 && p.isLast(s, size, k) {
			peak = g.backwardPeak[1]
			end += g.result
		}
		received := p.received(s, size, k)
		if k > 0 && p.shares(s, size, k) {
			end += received
		}
		r.backward[held].then(received+peak, end-peak)
		r.backwards[held][g.part].then(received+peak, end-peak)
	}
}

// isLast reports whether a segment makes the stage's result.
func (p *pricer) isLast(s, size, k int) bool { return k == len(p.prices[s][size].segments)-1 }

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

// inputRoom goes through I, as followBackward does.
func (p *pricer) inputRoom(s, size, held int) (r room) {
	segments := p.prices[s][size].segments
	for k, g := range slices.Backward(segments) {
		peak := g.inputPeak[0]
		end := g.recomputedForWeight + g.between - g.keptForInput - g.result
		stays := held == 1
		if !p.isLast(s, size, k) { // the W of the next segment is still to come
			stays = p.shares(s, size, k+1) && segments[k+1].inputs == untilWeight
		}
		if stays {
			peak = g.inputPeak[1]
			end += g.result
		}
		received := p.received(s, size, k)
		if k > 0 && p.shares(s, size, k) && g.inputs == untilInput {
			end += received
		}
		r.then(received+peak, end-peak)
	}
	return r
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
	return p.workload.Placement.Together(s-1, s)
}

// shares reports whether a segment's input and the result that the one before
// keeps are one tensor.
func (p *pricer) shares(s, size, k int) bool {
	b := p.before(s, size, k)
	return b != nil && (k > 0 || p.sameRank(s)) && b.keepsOutput && p.prices[s][size].segments[k].inputs != notShared
}
