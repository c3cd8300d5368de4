package memory

import (
	"slices"

	"psim/costmodel/network"
)

// A change is how a task changes the live bytes of its rank, relative to those before it: by peak
// at most while it runs, and by left when it has ended. Of these, made are gradients that the task
// has made: at the peak, and in the end.
type change struct {
	peak, left         int64
	madeAtPeak, madeIn int64
}

// then appends a step that allocates start bytes and changes the level by end when it is done.
func (c *change) then(start, end int64) { c.makes(start, end, 0, 0) }

// makes appends a step that makes gradients: those of its peak are among start, and made are among
// start + end.
func (c *change) makes(start, end, atPeak, made int64) {
	if c.left+start > c.peak {
		c.peak, c.madeAtPeak = c.left+start, c.madeIn+atPeak
	}
	c.left += start + end
	c.madeIn += made
}

// parts splits the change as bytes does, by use.
func (c change) parts() (start, end Breakdown) {
	start.Gradients, start.Activations = c.madeAtPeak, c.peak-c.madeAtPeak
	end.Gradients, end.Activations = c.madeIn-c.madeAtPeak, c.left-c.madeIn-start.Activations
	return start, end
}

// bytes splits the change between the start and the end of a task.
func (c change) bytes() (start, end int64) { return c.peak, c.left - c.peak }

// passes hold the changes by the passes of a stage for one size of microbatch, and by the parts
// of B and W. I and B have two changes: the second if the stage's result outlives them, because
// the W of the next stage on the same rank still needs it.
type passes struct {
	segments        []segment
	forward, weight change
	loss            change // a task of its own, or nothing
	input, backward [2]change
	backwardParts   [2][]change
	weightParts     []change
}

// last returns the segment whose result the stage passes on.
func (p *passes) last() *segment { return &p.segments[len(p.segments)-1] }

// followStage walks through the segments of a stage, pass by pass.
func (l *Ledger) followStage(s, size int) {
	p := &l.stages[s].sizes[size]
	parts := max(1, len(l.stages[s].gradients))
	p.weightParts = make([]change, parts)
	computes := len(p.segments)
	if l.staged.LossApart(s) {
		computes--
	}
	p.forward, p.loss = l.forward(s, size, 0, computes), l.forward(s, size, computes, len(p.segments))
	for held := range 2 {
		p.input[held] = l.inputGradient(s, size, held)
		p.backwardParts[held] = make([]change, parts)
		l.followBackward(p, s, size, held)
	}
	for _, g := range slices.Backward(p.segments) {
		freed := g.keptForWeight + g.recomputedForWeight + g.inputToWeight
		p.weight.makes(g.made, -freed, g.made, g.made)
		p.weightParts[g.part].makes(g.made, -freed, g.made, g.made)
	}
}

// followsLike reports whether the passes of a stage change memory as those of the stage before do.
func (l *Ledger) followsLike(s, size int) bool {
	same := func(a, b int) bool {
		return a > 0 && &l.stages[a].sizes[size].segments[0] == &l.stages[b].sizes[size].segments[0]
	}
	return same(s-1, s) && same(s-2, s-1) && l.sameRank(s) == l.sameRank(s-1) &&
		len(l.stages[s].gradients) == len(l.stages[s-1].gradients)
}

// followBackward walks through B: a segment allocates the gradient that it passes on, and frees
// the one that it received. The segment before frees its input if it keeps that as its result.
func (l *Ledger) followBackward(p *passes, s, size, held int) {
	for k, g := range slices.Backward(p.segments) {
		peak, atPeak := g.backwardPeak[0], g.madeAtPeak[0]
		end := g.repeatedEarly - g.keptForInput - g.keptForWeight - g.result + g.made
		if held == 1 && k == len(p.segments)-1 {
			peak, atPeak = g.backwardPeak[1], g.madeAtPeak[1]
			end += g.result
		}
		given := l.inputBytes(s, size, k)
		peak += l.inputGradientBytes(s, size, k)
		if k > 0 && l.shares(s, size, k) {
			end += given
		}
		p.backward[held].makes(given+peak, end-peak, atPeak, g.made)
		p.backwardParts[held][g.part].makes(given+peak, end-peak, atPeak, g.made)
	}
}

// forward walks through the F of some segments: a segment allocates the tensors that it keeps and its output. It
// keeps the buffer of its input, or frees it at its end.
func (l *Ledger) forward(s, size, from, to int) (c change) {
	for k, g := range l.stages[s].sizes[size].segments {
		if k < from || k >= to {
			continue
		}
		var given int64
		if b := l.previous(s, size, k); b != nil {
			given = b.output
			if message := k == 0 && !l.sameRank(s); message || l.shares(s, size, k) {
				given = b.result
			}
		}
		start, end := g.keptForInput+g.keptForWeight+g.output, int64(0)
		if g.input == notShared && !g.idle {
			end -= given
		} else {
			start -= given
		}
		c.then(start, end)
	}
	return c
}

// inputGradient walks through I, as followBackward does through B.
func (l *Ledger) inputGradient(s, size, held int) (c change) {
	segments := l.stages[s].sizes[size].segments
	for k, g := range slices.Backward(segments) {
		peak := g.inputPeak[0]
		end := g.repeatedEarly + g.recomputedForWeight + g.inputToWeight - g.keptForInput - g.result
		outlives := held == 1
		if k < len(segments)-1 { // the W of the next segment is still to come
			outlives = l.shares(s, size, k+1) && segments[k+1].input == untilWeight
		}
		if outlives {
			peak = g.inputPeak[1]
			end += g.result
		}
		given := l.inputBytes(s, size, k)
		if k > 0 && l.shares(s, size, k) && g.input == untilInput {
			end += given
		}
		c.then(given+peak, end-peak)
	}
	return c
}

// previous returns the segment whose result a segment gets; nil for the first one.
func (l *Ledger) previous(s, size, k int) *segment {
	if k > 0 {
		return &l.stages[s].sizes[size].segments[k-1]
	}
	if s == 0 {
		return nil
	}
	return l.stages[s-1].sizes[size].last()
}

// inputBytes returns the size of a segment's input, which is that of the gradient it passes on.
func (l *Ledger) inputBytes(s, size, k int) int64 {
	if b := l.previous(s, size, k); b != nil {
		return b.result
	}
	return 0
}

// inputGradientBytes returns the size of the gradient of the network's input, which only a
// backward in two passes makes, and which is not used. Tokens have no gradient.
func (l *Ledger) inputGradientBytes(s, size, k int) int64 {
	first := l.staged.Stages[0].Layers[0]
	if s > 0 || k > 0 || !l.staged.Training.TwoPass() || first.Ops[0].Class == network.Lookup {
		return 0
	}
	return first.Input.Elements() * l.staged.Training.ActivationElement() * l.staged.Sizes[size]
}

// sameRank reports whether a stage gets its input without a message.
func (l *Ledger) sameRank(s int) bool { return l.staged.Placement.Together(s-1, s) }

// shares reports whether a segment's input and the result that the segment before keeps are the
// same tensor.
func (l *Ledger) shares(s, size, k int) bool {
	b := l.previous(s, size, k)
	if b == nil || k == 0 && !l.sameRank(s) {
		return false
	}
	return b.keepsOutput && l.stages[s].sizes[size].segments[k].input != notShared
}
