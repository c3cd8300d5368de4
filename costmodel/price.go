package costmodel

import (
	"time"

	"psim/costmodel/arch"
	"psim/schedules"
)

// price is what one stage costs for one size of microbatch.
type price struct {
	forward, input, weight, recompute time.Duration
	whole                             time.Duration // input and weight in one piece

	// keptForInput and keptForWeight stay from F to the end of I and of W;
	// recomputedForWeight and between, which I makes, stay to the end of W.
	keptForInput, keptForWeight  int64
	recomputedForWeight, between int64
	// inputPeak and backwardPeak are the most that I and B need beyond what
	// was kept, as they go from the last layer to the first, recomputing and
	// freeing each.
	inputPeak, backwardPeak int64
	// inner is what the devices of the rank exchange in each pass.
	inner passes
	// output is the stage's result on its way to the next, 0 where the stage
	// keeps it anyway; result is its size.
	output, result int64
}

// lossBytes is the loss of a microbatch, and then its gradient: a scalar that
// the last stage has from F to I.
const lossBytes = 4

// backward is the time of the whole backward.
func (p price) backward() time.Duration { return total(p.recompute, p.whole) }

// price prices a stage for a microbatch of the given number of samples.
func (w Workload) price(c Compute, stage int, samples int64) price {
	var p price
	element := w.Training.ActivationElement()
	layers := w.Stage(stage)
	for _, l := range layers {
		p.forward = total(p.forward, c.Layer(l, arch.Forward, samples))
		p.input = total(p.input, c.Layer(l, arch.InputGradient, samples))
		p.weight = total(p.weight, c.Layer(l, arch.WeightGradient, samples))
		p.whole = total(p.whole, c.Backward(l, samples))
		p.recompute = total(p.recompute, c.Recompute(l, w.Training, samples))
		p.inner.add(c, l, w.Training, samples)
		kept := bytesOf(w.Training.Kept(l), element, samples)
		p.keptForInput += kept[arch.ForwardToInput]
		p.keptForWeight += kept[arch.ForwardToWeight]
	}
	p.gather(w.received(c, stage, stage-1, samples), w.received(c, stage, stage+1, samples))
	w.walkBack(&p, layers, samples)
	last := layers[len(layers)-1]
	if stage == len(w.Layers)-1 {
		p.keptForInput += lossBytes
	} else {
		p.result = last.Output.Elements() * element * samples
		p.output = p.result
		if keepsOutput(layers) {
			p.keptForInput += p.result
			p.output = 0
		}
	}
	return p
}

// keepsOutput reports whether a stage needs its own result again: what its last
// layer that computes anything makes.
func keepsOutput(layers []arch.Layer) bool {
	for i := len(layers) - 1; i >= 0; i-- {
		if len(layers[i].Ops) > 0 {
			return layers[i].KeepsOutput
		}
	}
	return false
}

// walkBack follows the memory of I and of B from the last layer to the first.
func (w Workload) walkBack(p *price, layers []arch.Layer, samples int64) {
	element := w.Training.ActivationElement()
	var input, backward int64 // levels, 0 when the backward starts
	for i := len(layers) - 1; i >= 0; i-- {
		kept := bytesOf(w.Training.Kept(layers[i]), element, samples)
		whole := bytesOf(layers[i].Buffers, element, samples)
		forInput := whole[arch.ForwardToInput] - kept[arch.ForwardToInput]
		forWeight := whole[arch.ForwardToWeight] - kept[arch.ForwardToWeight]
		p.recomputedForWeight += forWeight
		p.between += whole[arch.InputToWeight]

		input += forInput + forWeight + whole[arch.InputToWeight]
		p.inputPeak = max(p.inputPeak, input)
		input -= whole[arch.ForwardToInput]

		backward += forInput + forWeight
		p.backwardPeak = max(p.backwardPeak, backward)
		backward -= whole[arch.ForwardToInput] + whole[arch.ForwardToWeight]
	}
}

// bytesOf sums buffers by lifetime for a microbatch.
func bytesOf(buffers []arch.Buffer, element, samples int64) [3]int64 {
	var sum [3]int64
	for _, b := range buffers {
		sum[b.Lifetime] += b.Bytes(element) * samples
	}
	return sum
}

// slice cuts a stage's B or W where each of its gradient buckets, given in
// bytes, is complete: a layer's time is spread over its own tensors by their
// size, and a layer without any counts towards the next tensor.
func (w Workload) slice(c Compute, k schedules.Kind, stage int, samples int64, buckets []int64) []time.Duration {
	layers := w.Stage(stage)
	var progress []progressPoint // time done when so many gradient bytes are complete
	var done time.Duration
	if k == schedules.Backward {
		done = w.received(c, stage, stage+1, samples).Exposed
	}
	var bytes int64
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		if k == schedules.Backward {
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
