package programs

import (
	"strings"

	"psim/costmodel/network"
)

// liveBytes says how a backward program changes the bytes of the tensors that
// live between passes, as it goes from the last layer to the first: by layer, what
// is made there, and what is gone after it. Those are the saved tensors that it
// uses up, and what a repeated layer has made again. What is left goes to W.
type liveBytes struct {
	layers     []layer
	made, gone map[string]int64
	left       int64
	usedUp     map[string]string // the layer of what is used up, by the slot's name
}

// liveBytes follows the program that was built in a scope: I if it is split, or B.
func (s *Stage) liveBytes(sc *scope, split bool) *liveBytes {
	w := &liveBytes{layers: s.layers, made: map[string]int64{}, gone: map[string]int64{}, usedUp: map[string]string{}}
	given := map[*Node]string{}
	for name, node := range sc.nodes {
		given[node] = name
	}
	handedOn := map[string]bool{} // saved slots that are results as they are
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

func (w *liveBytes) make(layer string, bytes int64, left bool) {
	w.made[layer] += bytes
	if left {
		w.left += bytes
	} else {
		w.gone[layer] += bytes
	}
}

// peak returns the most bytes on the way, beyond those before and those that are
// left. Of what would go with its layer, the retained bytes do not, because
// somebody else holds them.
func (w *liveBytes) peak(retained map[string]int64) int64 {
	var level, most int64
	for i := len(w.layers) - 1; i >= 0; i-- {
		name := w.layers[i].Name
		level += w.made[name]
		most = max(most, level)
		level -= w.gone[name] - retained[name]
	}
	return max(most, level) - w.left
}

func (s *Stage) ownerOf(parameter string) string {
	for _, l := range s.layers {
		for _, t := range append(l.Params[:len(l.Params):len(l.Params)], l.Tied...) {
			if t.Name == parameter {
				return l.Name
			}
		}
	}
	return ""
}

func (s slot) layer() string {
	name, _, _ := strings.Cut(s.name, "/")
	return name
}
