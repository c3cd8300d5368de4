package training

import (
	"errors"
	"fmt"

	"psim/costmodel/network"
	"psim/internal/setting"
)

// offloadSetting describes OffloadActivations.
func offloadSetting() setting.Setting {
	return setting.Setting{
		Key: "offload_activations", Executed: []string{"0"}, Default: 0, Range: setting.Between(0, mostBlocks),
		Try: []string{"0"},
		Text: "blocks, from the first on, whose kept tensors are copied to the host's memory after their " +
			"forward, and back before their backward, over host_link and on a stream of their own. With n of m " +
			"blocks at most m − n have their tensors on the device (Transformer Engine's get_cpu_offload_context)",
	}
}

// Offloaded returns, by layer, whether its kept tensors wait in the memory of the host, and the layer whose
// tensors leave before its forward; −1 for none. It refuses more blocks than all but the last.
func (t Options) Offloaded(layers []network.Layer) (offloaded []bool, behind []int, err error) {
	var blocks []int
	for i, l := range layers {
		if l.IsBlock() {
			blocks = append(blocks, i)
		}
	}
	n := t.OffloadActivations
	offloaded, behind = make([]bool, len(layers)), make([]int, len(layers))
	for i := range behind {
		behind[i] = -1
	}
	switch {
	case n == 0:
		return offloaded, behind, nil
	case len(blocks) == 0:
		return nil, nil, errors.New("offload_activations: is about blocks of a transformer, which the network lacks; " +
			"remove it")
	case n >= len(blocks):
		return nil, nil, fmt.Errorf("offload_activations = %d: must be less than the %d blocks of the network, as the "+
			"backward of the last one begins at once", n, len(blocks))
	case t.Recompute == "full" && t.RecomputeMethod == RecomputeUniform && t.RecomputeLayers > 1:
		return nil, nil, fmt.Errorf("offload_activations = %d: is not modelled with recompute_layers = %d, which "+
			"repeats several blocks from one input; set recompute_layers = 1", n, t.RecomputeLayers)
	}
	window := len(blocks) - n
	for k, i := range blocks[:n] {
		offloaded[i], behind[blocks[k+window]] = true, i
	}
	return offloaded, behind, nil
}
