package network

import (
	"slices"
)

// A Module is a set of parts of a block, one bit each, that recomputation can repeat without
// the rest of the block.
type Module uint16

// The parts of a block. The name core_attn of a list in [train] recompute stands for the first
// two.
const (
	Square           Module = 1 << iota // products and softmax between q, k, v and the context
	FusedCore                           // the same in one kernel
	DenseMLP                            // an MLP that every token goes through
	Mixture                             // a mixture of experts with its router
	ExpertActivation                    // the activation function of the experts, with their gate
	SharedExperts                       // the experts of a mixture that every token goes through
	Norms                               // the norms before attention and before the MLP
	UpProjection                        // the projections out of latent vectors, and the positions
)

// A ModuleName is a name in [train] recompute, with the parts that it stands for.
type ModuleName struct {
	Name    string
	Parts   Module
	Without string // what a network without these parts lacks, for messages
}

// ModuleNames lists the names in the order in which a list of them is kept. Names and parts are
// those of recompute_modules in Megatron-LM (megatron/core/transformer/transformer_config.py),
// which calls norm layernorm.
func ModuleNames() []ModuleName {
	return []ModuleName{
		{"core_attn", Square | FusedCore, "no attention"},
		{"mlp", DenseMLP, "no dense MLP in a block"},
		{"moe", Mixture, "no experts"},
		{"moe_act", ExpertActivation, "no experts"},
		{"shared_experts", SharedExperts, "no shared experts"},
		{"norm", Norms, "no blocks with norms"},
		{"mla_up_proj", UpProjection, "no latent attention"},
	}
}

// Modules lists the modules that a network has.
func (n Network) Modules() (names []string) {
	var parts Module
	for i, first := range Same(n.Layers) {
		if first < i {
			continue
		}
		for _, op := range n.Layers[i].Ops {
			parts |= op.Modules
		}
	}
	for _, m := range ModuleNames() {
		if parts&m.Parts != 0 {
			names = append(names, m.Name)
		}
	}
	return names
}

// IsBlock reports whether a layer is a block of a transformer, with attention, a scan, an MLP or experts.
func (l Layer) IsBlock() bool {
	part := func(op Op) bool {
		return op.Modules&(Square|FusedCore|DenseMLP|Mixture) != 0 || op.Class == Scan
	}
	return l.Repeatable && slices.ContainsFunc(l.Ops, part)
}

// Scans reports whether the network mixes tokens by scans, as Mamba-2 and delta nets do.
func (n Network) Scans() bool {
	scan := func(op Op) bool { return op.Class == Scan }
	return slices.ContainsFunc(n.Layers, func(l Layer) bool { return slices.ContainsFunc(l.Ops, scan) })
}

// Ends returns the number of blocks of a transformer, and of the layers before and after them.
// Modules that predict further tokens do not count as blocks: they stay with the head.
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
