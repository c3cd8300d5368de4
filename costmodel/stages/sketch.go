package stages

import (
	"slices"

	"psim/costmodel/frozen"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// A ParameterCount is the number of parameters that a layer owns, the number of them that belong
// to experts, and of both the number of weights in products of fewer than 16 bits.
type ParameterCount struct {
	parameters, experts, narrow, narrowExperts int64
	frozen                                     frozen.Counts
}

// CountParameters counts the parameters of every layer.
func CountParameters(layers []network.Layer) []ParameterCount {
	list := make([]ParameterCount, len(layers))
	for i, l := range layers {
		c := &list[i]
		for _, t := range l.Params {
			n := t.Shape.Elements()
			c.parameters += n
			if t.Expert {
				c.experts += n
			}
		}
		for _, t := range l.Frozen {
			c.frozen[t.Format] += t.Shape.Elements()
		}
		c.narrow, c.narrowExperts = narrowWeights(layers[i : i+1])
	}
	return list
}

// Sketch derives only what persistent memory depends on, given the counts of all layers. It needs
// no lists of tensors, which have tens of thousands of entries in a mixture of experts. Under
// ZeRO 3 with PerTensor it knows too little padding.
func (w Workload) Sketch(counts []ParameterCount) *Staged {
	staged := &Staged{Workload: w, PerParameter: w.state(), Stages: make([]Stage, len(w.Layers))}
	split, layer := w.split(), 0
	for s, n := range w.Layers {
		st := &staged.Stages[s]
		st.Ranks = w.Placement.Ranks(s)
		for i := range n {
			c := &counts[layer]
			st.Parameters, st.Experts = st.Parameters+c.parameters, st.Experts+c.experts
			st.Narrow, st.NarrowExperts = st.Narrow+c.narrow, st.NarrowExperts+c.narrowExperts
			brought := func(t network.Tensor) bool { return split.brings(s, i, t) }
			w.sketchStates(st, c.parameters, w.Network.Layers[layer], brought)
			for format, n := range c.frozen {
				st.Frozen[format] += n
			}
			for _, t := range w.Network.Layers[layer].FrozenTied {
				if split.brings(s, i, t) {
					st.Frozen[t.Format] += t.Shape.Elements()
				}
			}
			for _, t := range w.Network.Layers[layer].Tied {
				if split.brings(s, i, t) {
					st.Parameters += t.Shape.Elements()
				}
			}
			st.Unpacked = max(st.Unpacked, unpacked(w.Network.Layers[layer:layer+1]))
			layer++
		}
		st.Stored = st.Parameters
		if w.Zero >= 3 {
			st.Flats, st.Units = staged.addFrozen(staged.sketchFlats(st, s), split, s), staged.owners(split, s)
			staged.pad(st)
			staged.narrow(st)
		}
	}
	return staged
}

// sketchFlats returns the flats of a stage without their tensors: of experts on other devices, and of everything else.
func (staged *Staged) sketchFlats(st *Stage, s int) (flats []Flat) {
	rest := st.Parameters
	if st.Experts > 0 && staged.Network.Group.Dispatches() {
		flats = append(flats, Flat{Name: flatName(s, 0), Parameters: st.Experts, Experts: true})
		rest -= st.Experts
	}
	if rest > 0 {
		flats = append(flats, Flat{Name: flatName(s, len(flats)), Parameters: rest})
	}
	return flats
}

// SketchPasses is Sketch with what passes of whole stages compute, exchange and keep. It returns false if that
// depends on lists of tensors: on buckets that cut backwards, or on flats of single tensors. The network is as it is
// trained, as StagedFrom has it.
func (w Workload) SketchPasses(counts []ParameterCount) (staged *Staged, ok bool) {
	if w.Loop || w.Training.RecomputeLayers > 0 || w.Process.FreedGradients || w.Zero >= 3 && w.PerTensor {
		return nil, false
	}
	staged = w.Sketch(counts)
	split, kinds := w.split(), layerKinds{staged: staged}
	for s := range staged.Stages {
		st := &staged.Stages[s]
		st.Layers = split.Stage(s)
		st.forwardExchanges, st.backwardExchanges = kinds.forward(st.Layers), kinds.backward(st.Layers)
		if w.Overlap && w.Zero < 3 && len(st.forwardExchanges) == 0 && staged.sumsGradients() {
			return nil, false
		}
		st.Segments = staged.segments(st)
	}
	staged.findSizes()
	return staged, true
}

// sketchStates adds what an optimizer keeps and computes for a layer's parameters and the tied tensors that are
// brought with it. Its tensors are looked at only where it keeps something by their shapes.
func (w *Workload) sketchStates(st *Stage, parameters int64, l network.Layer, brought func(network.Tensor) bool) {
	tied := slices.DeleteFunc(slices.Clone(l.Tied), func(t network.Tensor) bool { return !brought(t) })
	if w.Training.ByTensor() {
		w.addStates(st, l, slices.Concat(l.Params, tied))
		return
	}
	for _, t := range tied {
		parameters += t.Shape.Elements()
	}
	st.Widest = max(st.Widest, parameters)
}

// state returns the bytes of one parameter.
func (w Workload) state() training.State {
	if w.State == (training.State{}) {
		return w.Training.State()
	}
	return w.State
}
