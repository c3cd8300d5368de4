package costmodel

import (
	"time"

	"psim/costmodel/arch"
	"psim/schedules/graph"
)

// price is what one stage costs for one size of microbatch.
type price struct {
	forward, input, weight, recompute time.Duration
	whole                             time.Duration // input and weight in one piece

	segments []segment
	// inner is what the devices of the rank exchange in each pass.
	inner passes
}

// last is the segment whose result the stage hands on.
func (p *price) last() *segment { return &p.segments[len(p.segments)-1] }

// backward is the time of the whole backward.
func (p price) backward() time.Duration { return total(p.recompute, p.whole) }

// price prices a stage for a microbatch of the given number of samples, but for
// its memory.
func (w Workload) price(c Compute, stage int, samples int64) price {
	var p price
	for _, l := range w.Stage(stage) {
		p.forward = total(p.forward, c.Layer(l, arch.Forward, samples))
		p.input = total(p.input, c.Layer(l, arch.InputGradient, samples))
		p.weight = total(p.weight, c.Layer(l, arch.WeightGradient, samples))
		p.whole = total(p.whole, c.Backward(l, samples))
		p.recompute = total(p.recompute, c.Recompute(l, w.Training, samples))
		p.inner.add(c, l, w.Training, samples)
	}
	p.gather(w.received(c, stage, stage-1, samples), w.received(c, stage, stage+1, samples))
	return p
}

// slice cuts a stage's B or W where each of its gradient buckets, given in
// bytes, is complete: a layer's time is spread over its own tensors by their
// size, and a layer without any counts towards the next tensor.
func (w Workload) slice(c Compute, k graph.Kind, stage int, samples int64, buckets []int64) []time.Duration {
	layers := w.Stage(stage)
	var progress []progressPoint // time done when so many gradient bytes are complete
	var done time.Duration
	if k == graph.Backward {
		done = w.received(c, stage, stage+1, samples).Exposed
	}
	var bytes int64
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		if k == graph.Backward {
			done = total(done, c.Backward(l, samples), c.Recompute(l, w.Training, samples))
		} else {
			done = total(done, c.Layer(l, arch.WeightGradient, samples))
		}
		own := int64(0)
		for _, t := range w.split().Held(stage, l) {
			own += t.Shape.Elements() * w.state().Gradient
		}
		if own > 0 {
			bytes += own
			progress = append(progress, progressPoint{bytes, done})
		}
	}
	slices := make([]time.Duration, len(buckets))
	var complete int64
	var before time.Duration
	for k, b := range buckets {
		complete += b
		at := timeAt(progress, complete)
		if k == len(buckets)-1 {
			at = done
		}
		slices[k] = at - before
		before = at
	}
	return slices
}

// progressPoint says that after a time so many bytes of gradients are there.
type progressPoint struct {
	bytes int64
	time  time.Duration
}

// timeAt interpolates the time at which a number of bytes is complete.
func timeAt(points []progressPoint, bytes int64) time.Duration {
	var from progressPoint
	for _, to := range points {
		if bytes <= to.bytes {
			share := float64(bytes-from.bytes) / float64(to.bytes-from.bytes)
			return from.time + time.Duration(share*float64(to.time-from.time))
		}
		from = to
	}
	return from.time
}
