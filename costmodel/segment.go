package costmodel

import (
	"strings"

	"psim/costmodel/arch"
)

// segment is the memory of consecutive layers of a stage that run together, for
// one size of microbatch: all of the stage, or what ends where a slice of its
// backward does, or one layer.
type segment struct {
	// keptForInput and keptForWeight stay from F to the end of I and of W;
	// recomputedForWeight and between, which I makes, stay to the end of W.
	keptForInput, keptForWeight  int64
	recomputedForWeight, between int64
	// inputPeak and backwardPeak are the most that I and B need beyond what
	// was kept, as they go from the last layer to the first, recomputing and
	// freeing each. Which of the two: whether the result, which is kept for I,
	// goes with its layer, or stays because the next one's W needs it.
	inputPeak, backwardPeak [2]int64
	// output is the result on its way to the next segment or stage, 0 where this
	// one keeps it anyway; result is its size.
	output, result int64
	// inputs says until when the input is kept. keepsOutput: the result is kept
	// for I, whoever else keeps it; idle: the result is the input.
	inputs            sharing
	keepsOutput, idle bool
	part              uint16 // the slice of the stage's backward that it is in
}

// A cut is how many layers a segment has, and its part.
type cut struct {
	layers int
	part   uint16
}

// cuts are the segments of a stage whose backward is in so many slices, with
// gradient buckets of these bytes: a layer's backward is in the slice that waits
// for the first of its gradients, and those after it.
func (w Workload) cuts(stage int, buckets []int64, slices int) []cut {
	layers, bucketOf := w.Stage(stage), w.bucketOf(stage, buckets)
	var cuts []cut // last first
	part, idle := 0, false
	for i := len(layers) - 1; i >= 0; i-- {
		if slices > 1 {
			part = max(part, firstBucket(w.split().Held(stage, layers[i]), bucketOf))
		}
		n := len(cuts)
		if n > 0 && (idle || !w.PerLayer && cuts[n-1].part == uint16(part)) {
			cuts[n-1].layers++
			cuts[n-1].part = uint16(part)
		} else {
			cuts = append(cuts, cut{1, uint16(part)})
		}
		idle = isIdle(layers[i : i+1])
	}
	for a, b := 0, len(cuts)-1; a < b; a, b = a+1, b-1 {
		cuts[a], cuts[b] = cuts[b], cuts[a]
	}
	return cuts
}

// bucketOf tells which bucket the gradient of each of a stage's tensors is in.
func (w Workload) bucketOf(stage int, buckets []int64) map[string]int {
	of, bucket, filled := map[string]int{}, 0, int64(0)
	for _, t := range w.split().Completed(stage) {
		of[t.Name] = bucket
		filled += t.Shape.Elements() * w.state().Gradient
		if bucket < len(buckets) && filled >= buckets[bucket] {
			bucket, filled = bucket+1, 0
		}
	}
	return of
}

// firstBucket is the first bucket with one of the tensors, or 0.
func firstBucket(tensors []arch.Tensor, bucketOf map[string]int) int {
	first := -1
	for _, t := range tensors {
		if k, ok := bucketOf[t.Name]; ok && (first < 0 || k < first) {
			first = k
		}
	}
	return max(first, 0)
}

// segments follows the memory of all segments of a stage.
func (w Workload) segments(stage int, samples int64, cuts []cut) []segment {
	layers := w.Stage(stage)
	var list []segment
	for k, c := range cuts {
		last := stage == len(w.Layers)-1 && k == len(cuts)-1
		g := w.segment(layers[:c.layers], samples, last)
		g.part = c.part
		list, layers = append(list, g), layers[c.layers:]
	}
	return list
}

// lossBytes is the loss of a microbatch, and then its gradient: a scalar that
// the last stage has from F to I.
const lossBytes = 4

// segment follows the memory of layers, the network's last ones or others.
func (w Workload) segment(layers []arch.Layer, samples int64, last bool) segment {
	element := w.Training.ActivationElement()
	g := segment{inputs: w.keepsInput(layers), idle: isIdle(layers)}
	for _, l := range layers {
		kept := bytesOf(w.Training.Kept(l), element, samples)
		g.keptForInput += kept[arch.ForwardToInput]
		g.keptForWeight += kept[arch.ForwardToWeight]
	}
	if last {
		g.keptForInput += lossBytes
	} else {
		g.result = layers[len(layers)-1].Output.Elements() * element * samples
		g.output = g.result
		switch atWork := layers[lastAtWork(layers)]; {
		case atWork.KeepsOutput && !w.Training.Repeats(atWork):
			g.keepsOutput = true
			g.keptForInput += g.result
			g.output = 0
		case w.listsOutput(atWork):
			g.output = 0
		}
	}
	for held := range 2 {
		w.walkBack(&g, layers, samples, held)
	}
	return g
}

// listsOutput reports whether a layer's result is among its buffers, as that of a
// convolution's ReLU.
func (w Workload) listsOutput(l arch.Layer) bool {
	for _, b := range w.Training.Kept(l) {
		if n := len(l.Ops); n > 0 && b.Name == l.Ops[n-1].Name+".output" {
			return true
		}
	}
	return false
}

// isIdle reports whether layers hand on what they are given.
func isIdle(layers []arch.Layer) bool {
	for _, l := range layers {
		if len(l.Ops) > 0 || len(l.Input) != len(l.Output) {
			return false
		}
	}
	return true
}

// lastAtWork is the last layer that computes anything, or the first.
func lastAtWork(layers []arch.Layer) int {
	for i := len(layers) - 1; i > 0; i-- {
		if len(layers[i].Ops) > 0 {
			return i
		}
	}
	return 0
}

// walkBack follows the memory of I and of B from the last layer to the first, with
// the result going with its layer (held 0) or staying (1). Where the last layer's W
// needs the gradient of the result, I frees none.
func (w Workload) walkBack(g *segment, layers []arch.Layer, samples int64, held int) {
	element := w.Training.ActivationElement()
	g.recomputedForWeight, g.between = 0, 0
	var input, backward int64 // levels, 0 when the backward starts
	last := lastAtWork(layers)
	if layers[last].KeepsGradient {
		input -= g.result
	}
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		kept := bytesOf(w.Training.Kept(l), element, samples)
		whole := bytesOf(l.Buffers, element, samples)
		if w.Training.Repeats(l) {
			whole[arch.ForwardToInput] += unlisted(l) * element * samples
		}
		forInput := whole[arch.ForwardToInput] - kept[arch.ForwardToInput]
		forWeight := whole[arch.ForwardToWeight] - kept[arch.ForwardToWeight]
		between := whole[arch.InputToWeight] + l.NormParameters()*w.state().Gradient
		g.recomputedForWeight += forWeight
		g.between += between

		input += forInput + forWeight + between
		g.inputPeak[held] = max(g.inputPeak[held], input)
		input -= whole[arch.ForwardToInput]

		backward += forInput + forWeight
		g.backwardPeak[held] = max(g.backwardPeak[held], backward)
		backward -= whole[arch.ForwardToInput] + whole[arch.ForwardToWeight]

		if i == last && g.keepsOutput && held == 0 {
			input, backward = input-g.result, backward-g.result
		}
	}
}

// unlisted is the elements per sample that a repeated layer has beside its
// buffers: its output, apart from what the next layer keeps, and its input.
func unlisted(l arch.Layer) (elements int64) {
	if l.KeepsOutput {
		elements += l.Output.Elements()
	}
	if inputOf(l.Buffers, l) == nil {
		elements += l.Input.Elements()
	}
	return elements
}

// inputOf finds a layer's input among its buffers; nil if none is that.
func inputOf(buffers []arch.Buffer, l arch.Layer) *arch.Buffer {
	for i, b := range buffers {
		if strings.HasSuffix(b.Name, "input") && b.Shape.Elements() == l.Input.Elements() {
			return &buffers[i]
		}
	}
	return nil
}

// bytesOf sums buffers by lifetime for a microbatch.
func bytesOf(buffers []arch.Buffer, element, samples int64) [3]int64 {
	var sum [3]int64
	for _, b := range buffers {
		sum[b.Lifetime] += b.Bytes(element) * samples
	}
	return sum
}
