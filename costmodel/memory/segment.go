package memory

import (
	"slices"
	"strings"

	"psim/costmodel/network"
	"psim/costmodel/stages"
)

// A segment holds the memory of a planned segment for one size of microbatch.
type segment struct {
	// keptForInput and keptForWeight last from F to the end of I and of W;
	// recomputedForWeight and between, which I makes, last to the end of W.
	keptForInput, keptForWeight        int64
	recomputedForWeight, inputToWeight int64
	// inputPeak and backwardPeak are the most that I and B need beyond what
	// was kept, as they go from the last layer to the first, recomputing and
	// freeing each: first where the result, which is kept for I, is freed with its
	// layer, second where it is not because the next one's W needs it.
	inputPeak, backwardPeak [2]int64
	// output is the result on its way to the next segment or stage, 0 where this
	// one keeps it anyway; result is its size.
	output, result int64
	// input says until when the input is kept. keepsOutput: the result is kept
	// for I, whoever else keeps it; idle: the result is the input.
	input             sharing
	keepsOutput, idle bool
	part              uint16 // of the stage's backward that it is in
	// ahead is what its backward repeats of other segments beyond what these repeat of it.
	repeatedEarly int64
}

// segmentsOf follows the memory of all segments of a stage, whose layers keep so much.
func segmentsOf(staged *stages.Staged, s int, kept []layerKept, samples int64) []segment {
	var list []segment
	planned := staged.Stages[s].Segments
	for k, g := range planned {
		last := s == len(staged.Stages)-1 && k == len(planned)-1
		list = append(list, segmentOf(staged, g, kept[:len(g.Layers)], samples, last))
		kept = kept[len(g.Layers):]
	}
	return list
}

// lossBytes counts the bytes of the loss of a microbatch, and then its gradient: a scalar that
// the last stage has from F to I.
const lossBytes = 4

// segmentOf follows the memory of layers, the network's last ones or others.
func segmentOf(staged *stages.Staged, planned stages.Segment, kept []layerKept, samples int64, last bool) segment {
	layers, element := planned.Layers, staged.Training.ActivationElement()
	g := segment{input: keepsInput(kept, layers), idle: !slices.ContainsFunc(layers, computes), part: planned.Part}
	for i := range kept {
		g.keptForInput += kept[i].bytes[network.ForwardToInput]
		g.keptForWeight += kept[i].bytes[network.ForwardToWeight]
	}
	if last {
		g.keptForInput += lossBytes
	} else {
		g.result = layers[len(layers)-1].Output.Elements() * element * samples
		g.output = g.result
		i := lastComputing(layers)
		switch atWork := layers[i]; {
		case atWork.KeepsOutput && !staged.Training.Repeats(atWork):
			g.keepsOutput = true
			g.keptForInput += g.result
			g.output = 0
		case listsOutput(kept[i].buffers, atWork):
			g.output = 0
		}
	}
	for i := range kept {
		for _, lifetime := range []network.Lifetime{network.ForwardToInput, network.ForwardToWeight} {
			g.repeatedEarly += kept[i].repeated[lifetime] - kept[i].missing(lifetime)
		}
	}
	for held := range 2 {
		g.walkBack(staged, layers, kept, held)
	}
	return g
}

// layerKept holds what a layer keeps between F and its backward, and counts that, and what
// is there when the rest is repeated, by lifetime.
type layerKept struct {
	buffers      []network.Buffer
	bytes, whole [3]int64
	// repeated is what its backward begins by making, by lifetime: of itself, or of all
	// layers that are repeated together.
	repeated [3]int64
}

// missing counts the bytes that are not kept of a layer and made again.
func (k *layerKept) missing(lifetime network.Lifetime) int64 {
	return k.whole[lifetime] - k.bytes[lifetime]
}

// keptBy finds it for layers; those that share their buffers keep the same.
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
		b.bytes, b.whole = network.BufferBytes(b.buffers, element, samples), network.BufferBytes(l.Buffers, element, samples)
		if staged.Training.Repeats(l) {
			b.whole[network.ForwardToInput] += unlistedElements(l) * element * samples
		}
	}
	for i := range list {
		together := staged.Training.RepeatedBefore(layers, i)
		for k := range together {
			of := &list[i-k]
			for _, lifetime := range []network.Lifetime{network.ForwardToInput, network.ForwardToWeight} {
				list[i].repeated[lifetime] += of.missing(lifetime)
			}
		}
	}
	return list
}

// listsOutput reports whether a layer's result is among its buffers, as that of a
// convolution's ReLU.
func listsOutput(kept []network.Buffer, l network.Layer) bool {
	for _, b := range kept {
		if n := len(l.Ops); n > 0 && b.Name == l.Ops[n-1].Name+".output" {
			return true
		}
	}
	return false
}

// works reports whether a layer does more than hand on what it is given.
func computes(l network.Layer) bool { return !l.Idle() }

// lastAtWork finds the last layer that computes anything, or the first.
func lastComputing(layers []network.Layer) int {
	for i := len(layers) - 1; i > 0; i-- {
		if len(layers[i].Ops) > 0 {
			return i
		}
	}
	return 0
}

// walkBack follows the memory of I and of B from the last layer to the first, with
// the result freed with its layer (held 0) or not (1). Where the last layer's W
// needs the gradient of the result, I does not free that.
func (g *segment) walkBack(staged *stages.Staged, layers []network.Layer, of []layerKept, held int) {
	g.recomputedForWeight, g.inputToWeight = 0, 0
	var input, backward int64 // levels, 0 when the backward starts
	last := lastComputing(layers)
	if layers[last].KeepsGradient {
		input -= g.result
	}
	for i := len(layers) - 1; i >= 0; i-- {
		l, whole := layers[i], of[i].whole
		again := of[i].repeated[network.ForwardToInput] + of[i].repeated[network.ForwardToWeight]
		between := whole[network.InputToWeight] + l.NormParameters()*staged.PerParameter.Gradient
		g.recomputedForWeight += of[i].missing(network.ForwardToWeight)
		g.inputToWeight += between

		input += again + between
		g.inputPeak[held] = max(g.inputPeak[held], input)
		input -= whole[network.ForwardToInput]

		backward += again
		g.backwardPeak[held] = max(g.backwardPeak[held], backward)
		backward -= whole[network.ForwardToInput] + whole[network.ForwardToWeight]

		if i == last && g.keepsOutput && held == 0 {
			input, backward = input-g.result, backward-g.result
		}
	}
}

// unlisted counts the elements per sample that a repeated layer has beside its
// buffers: its output, apart from what the next layer keeps, and its input.
func unlistedElements(l network.Layer) (elements int64) {
	if l.KeepsOutput {
		elements += l.Output.Elements()
	}
	if inputOf(l.Buffers, l) == nil {
		elements += l.Input.Elements()
	}
	return elements
}

// inputOf finds a layer's input among its buffers; nil if none is that.
func inputOf(buffers []network.Buffer, l network.Layer) *network.Buffer {
	for i, b := range buffers {
		if strings.HasSuffix(b.Name, "input") && b.Shape.Elements() == l.Input.Elements() {
			return &buffers[i]
		}
	}
	return nil
}
