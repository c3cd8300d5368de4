package kernels

import (
	"strings"

	"psim/costmodel/network"
)

// liveBytes says how a backward program changes the bytes of the tensors that live between
// passes, as it goes from the last layer to the first: the bytes that are made at each layer, and
// those that are freed after it. It frees the saved tensors that it uses up, and the tensors that
// a recomputed layer has made again. The rest is left to W.
type liveBytes struct {
	layers     []layer
	made, gone map[string]int64
	left       int64
	usedUp     map[string]string // the layer of an input that is used up, by its name
}

// liveBytes follows the program that was built in a scope: I if it is split, or else B.
func (s *Programs) liveBytes(sc *scope, split bool) *liveBytes {
	w := &liveBytes{layers: s.layers, made: map[string]int64{}, gone: map[string]int64{}, usedUp: map[string]string{}}
	given := sc.InputNames()
	handedOn := map[string]bool{} // saved slots that are results unchanged
	for _, slot := range slotsOf(sc) {
		name, isGiven := given[sc.local[slot.name]]
		switch {
		case isGiven && !isMask(name):
			handedOn[name] = split && slot.lifetime != network.ForwardToInput
		case split || slot.lifetime != network.InputToWeight: // a temporary of B
			w.make(slot.layer(), slot.shape.ByteSize(), split && slot.lifetime != network.ForwardToInput)
		}
	}
	for _, slot := range s.savedSlots {
		if !handedOn[slot.name] && (!split || slot.lifetime == network.ForwardToInput) {
			w.gone[slot.layer()] += slot.shape.ByteSize()
			w.usedUp[slot.name] = slot.layer()
		}
	}
	return w
}

// make counts a tensor that is made at a layer, and either left to W or gone after the layer.
func (w *liveBytes) make(layer string, bytes int64, left bool) {
	w.made[layer] += bytes
	if left {
		w.left += bytes
	} else {
		w.gone[layer] += bytes
	}
}

// peak returns the most bytes on the way, in addition to those before and those that are left.
// Retained has the bytes of inputs by name that somebody else still holds; they do not go with
// their layer.
func (w *liveBytes) peak(retained map[string]int64) int64 {
	stays := map[string]int64{} // by layer
	for name, bytes := range retained {
		if layer, ok := w.usedUp[name]; ok {
			stays[layer] += bytes
		}
	}
	var level, most int64
	for i := len(w.layers) - 1; i >= 0; i-- {
		name := w.layers[i].Name
		level += w.made[name]
		most = max(most, level)
		level -= w.gone[name] - stays[name]
	}
	return max(most, level) - w.left
}

// ownerOf returns the layer of a parameter.
func (s *Programs) ownerOf(parameter string) string {
	for _, l := range s.layers {
		for _, t := range append(l.Params[:len(l.Params):len(l.Params)], l.Tied...) {
			if t.Name == parameter {
				return l.Name
			}
		}
	}
	return ""
}

// layer returns the layer of the slot.
func (s slot) layer() string {
	name, _, _ := strings.Cut(s.name, "/")
	return name
}
