package stages

import (
	"slices"

	"psim/costmodel/network"
)

// Split is a network cut into stages that are placed on ranks. Prediction and execution both
// learn from it which tensors a rank holds.
type Split struct {
	Network network.Network
	Layers  []int   // Layers[s] is the number of layers of stage s
	Ranks   []int32 // Ranks[s] is the rank of stage s
}

// Stage returns the layers of a stage.
func (s Split) Stage(stage int) []network.Layer {
	first := 0
	for _, n := range s.Layers[:stage] {
		first += n
	}
	return s.Network.Layers[first : first+s.Layers[stage]]
}

// Owner returns the stage that owns a tensor, or −1.
func (s Split) Owner(name string) int {
	for stage := range s.Layers {
		for _, l := range s.Stage(stage) {
			if slices.ContainsFunc(l.Params, func(t network.Tensor) bool { return t.Name == name }) {
				return stage
			}
		}
	}
	return -1
}

// Held lists the tensors that a layer brings to the rank of its stage: those that it owns, and
// tied ones whose owner is on another rank.
func (s Split) Held(stage int, l network.Layer) []network.Tensor {
	held := slices.Clone(l.Params)
	for _, t := range l.Tied {
		if s.Holds(stage, t) {
			held = append(held, t)
		}
	}
	return held
}

// Holds reports whether a stage brings a copy of a tied tensor to its rank, because the owner is
// on another rank.
func (s Split) Holds(stage int, tied network.Tensor) bool {
	owner := s.Owner(tied.Name)
	return owner < 0 || s.Ranks[owner] != s.Ranks[stage]
}

// Completed lists the tensors of a stage in the order in which a backward completes their
// gradients: the last layer first, and within a layer the last tensor first. A tied tensor
// whose owner is on the same rank is complete when the owner's is.
func (s Split) Completed(stage int) []network.Tensor {
	var tensors []network.Tensor
	for _, l := range slices.Backward(s.Stage(stage)) {
		for _, t := range slices.Backward(s.Held(stage, l)) {
			tensors = append(tensors, t)
		}
	}
	return tensors
}
