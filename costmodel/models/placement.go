package models

import (
	"fmt"

	"psim/costmodel/network"
)

// VGG16Split returns the number of consecutive layers of vgg16-pipeline on each of 1 to 6
// workers, as split_vgg16 cuts it in the program that the preset comes from.
func VGG16Split(workers int) ([]int, error) {
	splits := [][]int{{13}, {5, 8}, {2, 3, 8}, {2, 2, 3, 6}, {1, 2, 2, 3, 5}, {1, 1, 2, 2, 2, 5}}
	if workers < 1 || workers > len(splits) {
		return nil, fmt.Errorf("no VGG16 split for %d workers: must be 1 to %d", workers, len(splits))
	}
	return splits[workers-1], nil
}

// GPT2Placement puts the head of GPT-2 on the rank of its table, as LLM Systems' homework 4 does: the
// blocks in runs of ceil(blocks/ranks), embeddings with the first run, the final norm with the last,
// and the head with its loss as one more stage on rank 0. layersPerStage sums to the number of
// layers; rankOfStage has the same length. On one rank there is one stage. A number of ranks that
// leaves some rank without a block is an error.
func GPT2Placement(n network.Network, ranks int) (layersPerStage []int, rankOfStage []int32, err error) {
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
		return nil, nil, fmt.Errorf("ranks = %d: runs of %d of the %d blocks leave rank %d without one",
			ranks, run, blocks, ranks-1)
	}
	for rank := range ranks {
		layersPerStage = append(layersPerStage, min(run, blocks-rank*run))
		rankOfStage = append(rankOfStage, int32(rank))
	}
	layersPerStage[0]++
	layersPerStage[ranks-1]++
	return append(layersPerStage, 1), append(rankOfStage, 0), nil
}
