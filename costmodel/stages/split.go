package stages

import (
	"slices"

	"psim/costmodel/network"
)

// Split is a network cut into stages that are placed on ranks. Prediction and
// execution both read from it what a rank holds.
type Split struct {
	Network network.Network
	Layers  []int   // Layers[s] is the number of layers of stage s
	Ranks   []int32 // Ranks[s] is where stage s is
}

// Stage returns the layers of a stage.
func (p Split) Stage(s int) []network.Layer {
	first := 0
	for _, n := range p.Layers[:s] {
		first += n
	}
	return p.Network.Layers[first : first+p.Layers[s]]
}

// Owner is the stage that owns a tensor, or −1.
func (p Split) Owner(name string) int {
	for s := range p.Layers {
		for _, l := range p.Stage(s) {
			if slices.ContainsFunc(l.Params, func(t network.Tensor) bool { return t.Name == name }) {
				return s
			}
		}
	}
	return -1
}

// Held lists the tensors that a layer brings to the rank of its stage: those it
// owns, and those it is tied to whose owner is on another rank.
func (p Split) Held(stage int, l network.Layer) []network.Tensor {
	held := slices.Clone(l.Params)
	for _, t := range l.Tied {
		if p.Holds(stage, t) {
			held = append(held, t)
		}
	}
	return held
}

// Holds reports whether a stage brings a tensor to its rank that one of its layers is tied
// to: the owner is on another.
func (p Split) Holds(stage int, tied network.Tensor) bool {
	owner := p.Owner(tied.Name)
	return owner < 0 || p.Ranks[owner] != p.Ranks[stage]
}

// Completed lists the tensors of a stage in the order in which a backward
// completes their gradients: last layer first, and within a layer last tensor
// first. A tied copy whose owner is on the same rank is the same tensor, complete
// with its owner.
func (p Split) Completed(s int) []network.Tensor {
	var tensors []network.Tensor
	for _, l := range slices.Backward(p.Stage(s)) {
		for _, t := range slices.Backward(p.Held(s, l)) {
			tensors = append(tensors, t)
		}
	}
	return tensors
}
