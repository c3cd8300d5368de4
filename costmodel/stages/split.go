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
			if contains(l.Params, name) || contains(l.Frozen, name) {
				return stage
			}
		}
	}
	return -1
}

// Held lists the tensors that layer i of a stage brings to its rank: those that it owns, and tied
// ones that the rank lacks so far.
func (s Split) Held(stage, i int) []network.Tensor {
	l := s.Stage(stage)[i]
	return s.withTied(stage, i, l.Params, l.Tied)
}

// withTied lists a layer's own tensors and the tied ones that it brings to its rank.
func (s Split) withTied(stage, i int, own, tied []network.Tensor) []network.Tensor {
	held := slices.Clip(own)
	for _, t := range tied {
		if s.brings(stage, i, t) {
			held = append(held, t)
		}
	}
	return held
}

// brings reports whether layer i of a stage brings a copy of a tied tensor to its rank. Of all
// layers on a rank that use the tensor, its owner does, and without it the first.
func (s Split) brings(stage, i int, tied network.Tensor) bool {
	at, layer := s.holder(stage, tied.Name)
	return at == stage && layer == i
}

// holder finds the stage and its layer that bring a tensor to the rank of a stage. The layer of
// its owner is −1.
func (s Split) holder(stage int, name string) (at, layer int) {
	if owner := s.Owner(name); owner >= 0 && s.Ranks[owner] == s.Ranks[stage] {
		return owner, -1
	}
	for at := range stage {
		if s.Ranks[at] != s.Ranks[stage] {
			continue
		}
		if layer := slices.IndexFunc(s.Stage(at), ties(name)); layer >= 0 {
			return at, layer
		}
	}
	return stage, slices.IndexFunc(s.Stage(stage), ties(name))
}

// ties returns a function that reports whether a layer uses a tied tensor.
func ties(name string) func(network.Layer) bool {
	return func(l network.Layer) bool { return contains(l.Tied, name) || contains(l.FrozenTied, name) }
}

// contains reports whether one of some tensors has a name.
func contains(tensors []network.Tensor, name string) bool {
	return slices.ContainsFunc(tensors, func(t network.Tensor) bool { return t.Name == name })
}

// frozen lists the frozen tensors that layer i of a stage brings to its rank.
func (s Split) frozen(stage, i int) []network.Tensor {
	l := s.Stage(stage)[i]
	return s.withTied(stage, i, l.Frozen, l.FrozenTied)
}

// Completed lists the tensors of a stage in the order in which a backward completes their
// gradients: the last layer first, and within a layer the last tensor first. A tied tensor is
// complete when the layer that brings it to the rank is.
func (s Split) Completed(stage int) []network.Tensor {
	count := 0
	for _, l := range s.Stage(stage) {
		count += len(l.Params) + len(l.Tied)
	}
	tensors := make([]network.Tensor, 0, count)
	for i := range slices.Backward(s.Stage(stage)) {
		for _, t := range slices.Backward(s.Held(stage, i)) {
			tensors = append(tensors, t)
		}
	}
	return tensors
}
