package network

import (
	"slices"
)

// A Module is a set of parts of a block that recomputation repeats by themselves, as bits.
type Module uint16

// The parts that Training.Recompute lists by name; core_attn is both of the first.
const (
	Square           Module = 1 << iota // the products and the softmax between q, k, v and the context
	FusedCore                           // the same in one kernel
	DenseMLP                            // an MLP that every token goes through
	Mixture                             // a mixture of experts with its router
	ExpertActivation                    // the activation function of its experts, with their gate
	SharedExperts                       // the experts of a mixture that every token goes through
	Norms                               // the norms before attention and before the MLP
	UpProjection                        // the projections out of latent vectors, and the positions
)

// A ModuleName is a name of Training.Recompute, and what a network needs to have it.
type ModuleName struct {
	Name    string
	Parts   Module
	Without string
}

// ModuleNames lists them in the order in which a list is kept. What is repeated is as in
// Megatron-LM's recompute_modules (megatron/core/transformer/transformer_config.py), which
// calls norm layernorm.
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
	var has Module
	for i, first := range Same(n.Layers) {
		if first < i {
			continue
		}
		for _, op := range n.Layers[i].Ops {
			has |= op.Modules
		}
	}
	for _, m := range ModuleNames() {
		if has&m.Parts != 0 {
			names = append(names, m.Name)
		}
	}
	return names
}

// IsBlock reports whether a layer is a block of a transformer.
func (l Layer) IsBlock() bool {
	return l.Repeatable && slices.ContainsFunc(l.Ops, func(op Op) bool { return op.Modules&(Square|FusedCore) != 0 })
}

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
