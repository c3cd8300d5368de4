package memory

import (
	"slices"
	"strings"

	"psim/costmodel/network"
	"psim/costmodel/stages"
)

// A segment holds the bytes of a segment of a stage for one size of microbatch.
type segment struct {
	// keptForInput and keptForWeight stay from F to the end of I and of W. I makes
	// recomputedForWeight and inputToWeight, which stay to the end of W.
	keptForInput, keptForWeight        int64
	recomputedForWeight, inputToWeight int64
	// inputPeak and backwardPeak are the peaks of I and B beyond the kept bytes. Both go from
	// the last layer to the first, and recompute and free layer by layer. The first peak is
	// for a result that is kept for I and freed with its layer, the second for one that stays
	// because the W of the next segment needs it.
	inputPeak, backwardPeak [2]int64
	// made is the gradients that the backward makes and the update frees, madeAtPeak those of
	// them that are there at backwardPeak.
	made       int64
	madeAtPeak [2]int64
	// result is the size of the result. output is the result on its way to the next segment
	// or stage: 0 if this segment keeps it anyway.
	output, result int64
	input          sharing // how long the input is kept
	keepsOutput    bool    // the result is kept for I
	idle           bool    // the result is the input
	part           uint16  // of the stage's backward
	// repeatedEarly is the bytes of other segments that the backward of this one recomputes,
	// less the bytes of this one that others recompute.
	repeatedEarly int64
}

// segmentsOf counts the bytes of all segments of a stage, given the tensors that its layers keep.
func segmentsOf(staged *stages.Staged, s int, kept []layerKept, samples int64) []segment {
	var list []segment
	planned := staged.Stages[s].Segments
	for k, p := range planned {
		g := newSegment(staged, p, kept[:len(p.Layers)])
		if s == len(staged.Stages)-1 && k == len(planned)-1 {
			g.keptForInput += lossBytes
		} else {
			g.addResult(staged, p.Layers, kept, samples)
		}
		for held := range 2 {
			g.walkBack(staged, p.Layers, kept, held)
		}
		list = append(list, g)
		kept = kept[len(p.Layers):]
	}
	return list
}

// sameSegments reports whether the segments of a stage are those of the stage before: both have layers that
// share operations, are cut alike and keep the same.
func sameSegments(staged *stages.Staged, s int, before, kept []layerKept) bool {
	a, b := &staged.Stages[s-1], &staged.Stages[s]
	sameCut := func(a, b stages.Segment) bool { return len(a.Layers) == len(b.Layers) && a.Part == b.Part }
	sameLayer := func(a, b network.Layer) bool {
		return a.Shares(b) && a.KeepsOutput == b.KeepsOutput && a.KeepsGradient == b.KeepsGradient &&
			len(a.Params) == len(b.Params) && slices.Equal(a.Output, b.Output)
	}
	return s < len(staged.Stages)-1 && slices.EqualFunc(a.Layers, b.Layers, sameLayer) &&
		slices.EqualFunc(a.Segments, b.Segments, sameCut) &&
		slices.EqualFunc(before[:len(a.Layers)], kept[:len(b.Layers)], layerKept.same)
}

// same reports whether two layers share the buffers that they keep, and repeat as many bytes.
func (k layerKept) same(other layerKept) bool {
	return k.bytes == other.bytes && k.whole == other.whole && k.repeated == other.repeated && k.made == other.made &&
		len(k.buffers) == len(other.buffers) && (len(k.buffers) == 0 || &k.buffers[0] == &other.buffers[0])
}

// lossBytes is the size of the loss of a microbatch, and later of its gradient: a scalar that the
// last stage holds from F to I.
const lossBytes = 4

// newSegment counts the bytes that a segment keeps.
func newSegment(staged *stages.Staged, planned stages.Segment, kept []layerKept) segment {
	g := segment{
		input: keepsInput(kept, planned.Layers),
		idle:  !slices.ContainsFunc(planned.Layers, computes),
		part:  planned.Part,
	}
	for i := range kept {
		g.keptForInput += kept[i].bytes[network.ForwardToInput]
		g.keptForWeight += kept[i].bytes[network.ForwardToWeight]
		for _, lifetime := range []network.Lifetime{network.ForwardToInput, network.ForwardToWeight} {
			g.repeatedEarly += kept[i].repeated[lifetime] - kept[i].missing(lifetime)
		}
	}
	return g
}

// addResult counts the result that a segment passes on.
func (g *segment) addResult(staged *stages.Staged, layers []network.Layer, kept []layerKept, samples int64) {
	g.result = layers[len(layers)-1].Output.Elements() * staged.Training.ActivationElement() * samples
	g.output = g.result
	i := lastComputing(layers)
	switch last := layers[i]; {
	case last.KeepsOutput && !staged.Training.Repeats(last):
		g.keepsOutput = true
		g.keptForInput += g.result
		g.output = 0
	case listsOutput(kept[i].buffers, last):
		g.output = 0
	}
}

// layerKept holds the buffers that a layer keeps between F and its backward. Bytes are by
// lifetime.
type layerKept struct {
	buffers []network.Buffer
	bytes   [3]int64 // of buffers
	whole   [3]int64 // of all buffers, when the missing ones have been recomputed
	// repeated is the bytes that the layer's backward recomputes first: those of this layer,
	// or of all layers that are repeated together.
	repeated [3]int64
	made     int64 // bytes of gradients that its backward makes and the update frees
}

// missing returns the bytes that a layer does not keep and recomputes.
func (k *layerKept) missing(lifetime network.Lifetime) int64 {
	return k.whole[lifetime] - k.bytes[lifetime]
}

// keptByLayers returns the tensors that layers keep. Layers that share their buffers keep the same.
func keptByLayers(staged *stages.Staged, layers []network.Layer, samples int64) []layerKept {
	list, element := make([]layerKept, len(layers)), staged.Training.ActivationElement()
	same := network.Same(layers)
	for i, l := range layers {
		if k := same[i]; k < i {
			list[i] = list[k]
			continue
		}
		b := &list[i]
		b.buffers = staged.Training.Kept(l)
		b.bytes = network.BufferBytes(b.buffers, element, samples)
		b.whole = network.BufferBytes(l.Buffers, element, samples)
		if staged.Training.Repeats(l) {
			b.whole[network.ForwardToInput] += unlistedElements(l) * element * samples
		}
	}
	for i := range list {
		for k := range staged.Training.RepeatedBefore(layers, i) {
			for _, lifetime := range []network.Lifetime{network.ForwardToInput, network.ForwardToWeight} {
				list[i].repeated[lifetime] += list[i-k].missing(lifetime)
			}
		}
	}
	return list
}

// listsOutput reports whether a layer's result is among its buffers, as with the ReLU after a
// convolution.
func listsOutput(kept []network.Buffer, l network.Layer) bool {
	for _, b := range kept {
		if n := len(l.Ops); n > 0 && b.Name == l.Ops[n-1].Name+".output" {
			return true
		}
	}
	return false
}

// computes reports whether a layer does more than pass its input on.
func computes(l network.Layer) bool { return !l.Idle() }

// lastComputing returns the index of the last layer with operations, or 0.
func lastComputing(layers []network.Layer) int {
	for i := len(layers) - 1; i > 0; i-- {
		if len(layers[i].Ops) > 0 {
			return i
		}
	}
	return 0
}

// walkBack follows the memory of I and of B from the last layer to the first. The result is freed
// with its layer if held is 0, and stays if it is 1. I does not free the gradient of the result
// if the last layer's W needs it.
func (g *segment) walkBack(staged *stages.Staged, layers []network.Layer, kept []layerKept, held int) {
	g.recomputedForWeight, g.inputToWeight, g.made = 0, 0, 0
	var input, backward int64 // live bytes in I and in B, relative to their start
	last := lastComputing(layers)
	if layers[last].KeepsGradient {
		input -= g.result
	}
	for i := len(layers) - 1; i >= 0; i-- {
		l, k := layers[i], &kept[i]
		recomputed := k.repeated[network.ForwardToInput] + k.repeated[network.ForwardToWeight]
		inputToWeight := k.whole[network.InputToWeight] + l.NormParameters()*staged.PerParameter.Gradient
		g.recomputedForWeight += k.missing(network.ForwardToWeight)
		g.inputToWeight += inputToWeight

		input += recomputed + inputToWeight
		g.inputPeak[held] = max(g.inputPeak[held], input)
		input -= k.whole[network.ForwardToInput]

		g.made += k.made
		backward += recomputed + k.made
		if backward > g.backwardPeak[held] {
			g.backwardPeak[held], g.madeAtPeak[held] = backward, g.made
		}
		backward -= k.whole[network.ForwardToInput] + k.whole[network.ForwardToWeight]

		if i == last && g.keepsOutput && held == 0 {
			input, backward = input-g.result, backward-g.result
		}
	}
}

// unlistedElements returns the elements per sample that a repeated layer has in addition to its
// buffers: its output unless the next layer keeps it, and its input.
func unlistedElements(l network.Layer) (elements int64) {
	if l.KeepsOutput {
		elements += l.Output.Elements()
	}
	if inputOf(l.Buffers, l) == nil {
		elements += l.Input.Elements()
	}
	return elements
}

// inputOf returns the buffer that is a layer's input; nil if there is none.
func inputOf(buffers []network.Buffer, l network.Layer) *network.Buffer {
	for i, b := range buffers {
		if strings.HasSuffix(b.Name, "input") && b.Shape.Elements() == l.Input.Elements() {
			return &buffers[i]
		}
	}
	return nil
}
