package programs

import (
	"strings"
)

// Saved is what Forward holds for the backward passes of one microbatch.
type Saved struct {
	held
	draw Draw // for a forward that the backward repeats
}

// Work is what InputGradient leaves to WeightGradient.
type Work struct {
	held
	gradients List // made already, of norms; others nil
}

// Outputs is what the network makes of the microbatch before its loss: the
// logarithms of the classes' (tokens') probabilities, a row for each target. It
// is nil except on the last stage and stays Saved's.
func (s *Saved) Outputs() *Tensor {
	for name, t := range s.values {
		if strings.HasSuffix(name, "/"+logProbabilities) {
			return t
		}
	}
	return nil
}

// held keeps a set of tensors between two passes.
type held struct {
	device *Device
	slots  []slot
	values map[string]*Tensor
}

// Release frees the tensors of a microbatch whose backward will not run.
func (h *held) Release() {
	for _, t := range h.values {
		t.Release()
	}
	h.slots, h.values = nil, nil
}

// take holds the results of a program as the given slots.
func take(d *Device, slots []slot, results []*Tensor) held {
	h := held{device: d, slots: slots, values: map[string]*Tensor{}}
	for i, s := range slots {
		h.values[s.name] = results[i]
	}
	return h
}

// Release frees what was left to WeightGradient.
func (w *Work) Release() {
	w.held.Release()
	w.gradients.Release()
	w.gradients = nil
}
