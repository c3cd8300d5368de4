package arch

import (
	"fmt"
	"slices"
	"strings"
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

// A moduleName is a name of Training.Recompute, and what a network needs to have it.
type moduleName struct {
	name    string
	parts   Module
	without string
}

// moduleNames lists them in the order in which a list is kept. What is repeated is as in
// Megatron-LM's recompute_modules (megatron/core/transformer/transformer_config.py), which
// calls norm layernorm.
func moduleNames() []moduleName {
	return []moduleName{
		{"core_attn", Square | FusedCore, "no attention"},
		{"mlp", DenseMLP, "no dense MLP in a block"},
		{"moe", Mixture, "no experts"},
		{"moe_act", ExpertActivation, "no experts"},
		{"shared_experts", SharedExperts, "no shared experts"},
		{"norm", Norms, "no blocks with norms"},
		{"mla_up_proj", UpProjection, "no latent attention"},
	}
}

// modulesByName lists the names.
func modulesByName() (names []string) {
	for _, m := range moduleNames() {
		names = append(names, m.name)
	}
	return names
}

// modules lists what recomputation repeats by parts.
func (t Training) modules() (parts Module) {
	if t.Recompute == "selective" && t.Selective != SelectiveOperations {
		return Square
	}
	for rest := t.Recompute; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, ",")
		for _, m := range moduleNames() {
			if m.name == name {
				parts |= m.parts
			}
		}
	}
	return parts
}

// Lists reports whether recomputation is a list with a module.
func (t Training) Lists(module string) bool {
	return slices.Contains(strings.Split(t.Recompute, ","), module)
}

// ByModule reports whether recomputation is a list of modules.
func (t Training) ByModule() bool { return t.Recompute != "selective" && t.modules() != 0 }

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
	for _, m := range moduleNames() {
		if has&m.parts != 0 {
			names = append(names, m.name)
		}
	}
	return names
}

// Check reports what recomputation asks of a network that has no such thing.
func (t Training) Check(n Network) error {
	var known []string
	if t.ByModule() {
		known = n.Modules()
	}
	for _, m := range moduleNames() {
		if !t.ByModule() || t.modules()&m.parts == 0 || slices.Contains(known, m.name) {
			continue
		}
		use := "use none or full"
		if known != nil {
			use = "it has " + strings.Join(known, ", ")
		}
		return fmt.Errorf("recompute = %q: %s has %s for %s; %s", t.Recompute, n.Name, m.without, m.name, use)
	}
	if t.RecomputeLayers > 0 && !slices.ContainsFunc(n.Layers, Layer.block) {
		return fmt.Errorf("recompute_layers = %d: counts the blocks of a transformer, and %s has none; set 0", t.RecomputeLayers, n.Name)
	}
	return nil
}

// block reports whether a layer is a block of a transformer.
func (l Layer) block() bool {
	return l.Repeatable && slices.ContainsFunc(l.Ops, func(op Op) bool { return op.Modules&(Square|FusedCore) != 0 })
}

// of marks an operation as a part of modules.
func (o Op) of(m Module) Op {
	o.Modules |= m
	return o
}

// within marks operations as parts of modules.
func within(m Module, ops []Op) []Op {
	for i := range ops {
		ops[i].Modules |= m
	}
	return ops
}

// madeWithin marks what operations of modules make, which is not kept when they are repeated.
func madeWithin(m Module, buffers []Buffer) []Buffer {
	for i := range buffers {
		buffers[i].Modules |= m
	}
	return buffers
}
