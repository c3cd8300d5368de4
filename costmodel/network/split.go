package network

import (
	"fmt"
	"slices"
)

// Ends counts the blocks of a transformer, and the layers before and after them. Modules that
// predict further tokens are no blocks: they stay with the head.
func (n Network) Ends() (before, blocks, after int) {
	for _, l := range n.Layers {
		switch {
		case l.IsBlock() && len(l.Tied) == 0:
			blocks++
		case blocks == 0:
			before++
		default:
			after++
		}
	}
	return before, blocks, after
}

// Split is a network cut into stages that are placed on ranks. Prediction and
// execution both read from it what a rank holds.
type Split struct {
	Network Network
	Layers  []int   // Layers[s] is the number of layers of stage s
	Ranks   []int32 // Ranks[s] is where stage s is
}

// Stage returns the layers of a stage.
func (p Split) Stage(s int) []Layer {
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
			if slices.ContainsFunc(l.Params, func(t Tensor) bool { return t.Name == name }) {
				return s
			}
		}
	}
	return -1
}

// Held lists the tensors that a layer brings to the rank of its stage: those it
// owns, and those it is tied to whose owner is on another rank.
func (p Split) Held(stage int, l Layer) []Tensor {
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
func (p Split) Holds(stage int, tied Tensor) bool {
	owner := p.Owner(tied.Name)
	return owner < 0 || p.Ranks[owner] != p.Ranks[stage]
}

// Completed lists the tensors of a stage in the order in which a backward
// completes their gradients: last layer first, and within a layer last tensor
// first. A tied copy whose owner is on the same rank is the same tensor, complete
// with its owner.
func (p Split) Completed(s int) []Tensor {
	var tensors []Tensor
	for _, l := range slices.Backward(p.Stage(s)) {
		for _, t := range slices.Backward(p.Held(s, l)) {
			tensors = append(tensors, t)
		}
	}
	return tensors
}

// VGG16Split returns the number of consecutive layers of vgg16-pipeline on each of 1 to 6
// workers, as split_vgg16 cuts it in the program that the preset comes from.
func VGG16Split(workers int) ([]int, error) {
	splits := [][]int{{13}, {5, 8}, {2, 3, 8}, {2, 2, 3, 6}, {1, 2, 2, 3, 5}, {1, 1, 2, 2, 2, 5}}
	if workers < 1 || workers > len(splits) {
		return nil, fmt.Errorf("no VGG16 split for %d workers: must be 1 to %d", workers, len(splits))
	}
	return splits[workers-1], nil
}

// GPT2Placement puts the head of GPT-2 where its table is, as LLM Systems' homework
// 4 does: the blocks in runs of ceil(blocks/ranks), embeddings with
// the first run, the final norm with the last, and the head with its loss as
// one more stage back on rank 0. layersPerStage sums to the number of layers;
// rankOfStage is as long. On one rank there is one stage. A number of ranks
// that leaves some rank without a block is an error.
func GPT2Placement(n Network, ranks int) (layersPerStage []int, rankOfStage []int32, err error) {
	last := len(n.Layers) - 1
	if last < 3 || n.Layers[0].Name != "embed" || n.Layers[last-1].Name != "ln_f" || n.Layers[last].Name != "head" {
		return nil, nil, fmt.Errorf("network %q is not a GPT: its layers must be embed, blocks, ln_f and head", n.Name)
	}
	blocks := last - 2
	if ranks < 1 || ranks > blocks {
		return nil, nil, fmt.Errorf("ranks = %d: must be 1 to %d, the number of blocks", ranks, blocks)
	}
	if ranks == 1 {
		return []int{len(n.Layers)}, []int32{0}, nil
	}
	run := (blocks + ranks - 1) / ranks
	if (ranks-1)*run >= blocks {
		return nil, nil, fmt.Errorf("ranks = %d: runs of %d of the %d blocks leave rank %d without one", ranks, run, blocks, ranks-1)
	}
	for rank := range ranks {
		layersPerStage = append(layersPerStage, min(run, blocks-rank*run))
		rankOfStage = append(rankOfStage, int32(rank))
	}
	layersPerStage[0]++
	layersPerStage[ranks-1]++
	return append(layersPerStage, 1), append(rankOfStage, 0), nil
}
