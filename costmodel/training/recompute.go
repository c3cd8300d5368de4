package training

import (
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/network"
)

// The values of Options.Selective: what selective recomputation runs again.
const (
	// SelectiveAttention repeats the core of attention (Korthikanti et al. 2022, section 5).
	// Fused attention keeps no square, so there is nothing to repeat.
	SelectiveAttention = "attention"
	// SelectiveOperations keeps the results of some operations of a block and runs the others
	// again. It keeps those of fused attention, of reduce-scatters, and of the first product
	// with a weight and every second one after it (torchtitan, parallelize_llama.py of 2024,
	// with selective_ac_option = "op").
	SelectiveOperations = "operations"
)

// Kept lists the buffers that a layer holds between F and the start of its backward. With
// recomputation these are fewer than l.Buffers: the backward then begins with Repeated(l),
// after which all of l.Buffers exist.
func (t Options) Kept(l network.Layer) []network.Buffer {
	input := network.Buffer{Name: "input", Shape: l.Input, Lifetime: network.ForwardToInput}
	var kept []network.Buffer
	switch {
	case t.Repeats(l) && l.JoinsPrevious:
		return nil
	case t.Repeats(l):
		return []network.Buffer{input}
	case t.byOperation(l):
		kept = append(kept, input)
		saved, _ := l.SavedOps()
		for _, op := range saved {
			kept = append(kept, op.Results(l)...)
		}
		return kept
	}
	modules := t.modules()
	for _, b := range l.Buffers {
		if b.Lifetime != network.InputToWeight && b.Modules&modules == 0 {
			kept = append(kept, b)
		}
	}
	return kept
}

// Repeats reports whether a layer runs all of F again, and keeps at most its input.
func (t Options) Repeats(l network.Layer) bool {
	return t.Recompute == "full" && l.Repeatable && !l.KeptWhole && !l.ForwardOnly
}

// The values of Options.RecomputeMethod: which blocks full recomputation repeats, and how many of
// them from one input, if RecomputeLayers is not 0.
const (
	// RecomputeUniform repeats all blocks, RecomputeLayers of a stage from one input.
	RecomputeUniform = "uniform"
	// RecomputeBlock repeats the first RecomputeLayers of a stage, each from its own input.
	RecomputeBlock = "block"
)

// MarkRepeated marks the layers that full recomputation repeats (Layer.KeptWhole,
// Layer.JoinsPrevious) in a network that is cut into stages. stages lists their numbers of
// layers.
func (t Options) MarkRepeated(n network.Network, stages []int) network.Network {
	t = t.defaults()
	if t.RecomputeLayers == 0 || t.RecomputeLayers == 1 && t.RecomputeMethod == RecomputeUniform {
		return n
	}
	n.Layers = slices.Clone(n.Layers)
	rest := n.Layers
	for _, count := range stages {
		blocks := 0
		for i := range rest[:count] {
			l := &rest[i]
			if !l.IsBlock() {
				continue
			}
			l.KeptWhole = t.RecomputeMethod == RecomputeBlock && blocks >= t.RecomputeLayers
			l.JoinsPrevious = t.RecomputeMethod == RecomputeUniform && blocks%t.RecomputeLayers > 0
			blocks++
		}
		rest = rest[count:]
	}
	return n
}

// RepeatedBefore lists the layers of a stage that run F again before the backward of layer i:
// that layer, or all layers that are repeated together if it is the last of them.
func (t Options) RepeatedBefore(stage []network.Layer, i int) []network.Layer {
	first := i
	switch {
	case !t.Repeats(stage[i]):
	case i+1 < len(stage) && stage[i+1].JoinsPrevious:
		return nil
	default:
		for first > 0 && stage[first].JoinsPrevious {
			first--
		}
	}
	return stage[first : i+1]
}

// Repeated lists the operations whose F runs a second time before the backward: those of listed
// modules, those whose results are not saved, or all operations of a Repeatable layer. The
// caller must not change them.
func (t Options) Repeated(l network.Layer) []network.Op {
	if t.byOperation(l) {
		_, repeated := l.SavedOps()
		return repeated
	}
	if t.Repeats(l) {
		return slices.Clip(l.Ops[:t.needed(l)])
	}
	if l.ForwardOnly {
		return nil
	}
	modules := t.modules()
	var repeated []network.Op
	for _, op := range l.Ops {
		if op.Modules&modules != 0 {
			repeated = append(repeated, op)
		}
	}
	return repeated
}

// needed counts the operations of a repeated layer that its backward needs. Mixtures are repeated whole, with
// their exchanges.
func (t Options) needed(l network.Layer) int {
	for i := len(l.Ops) - 1; i > 0 && t.StopEarly && l.Experts == 0; i-- {
		if l.Ops[i].Class == network.Product && l.Ops[i].Weight {
			return i
		}
	}
	return len(l.Ops)
}

// byOperation reports whether a layer keeps its input and the results of some operations
// (SelectiveOperations).
func (t Options) byOperation(l network.Layer) bool {
	return t.Recompute == "selective" && t.Selective == SelectiveOperations && l.IsBlock() && !l.ForwardOnly
}

// modules returns the parts of blocks that recomputation repeats on their own.
func (t Options) modules() (parts network.Module) {
	if t.Recompute == "selective" && t.Selective != SelectiveOperations {
		return network.Square
	}
	for rest := t.Recompute; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, ",")
		for _, m := range network.ModuleNames() {
			if m.Name == name {
				parts |= m.Parts
			}
		}
	}
	return parts
}

// RepeatsModule reports whether Recompute is a list that names a module.
func (t Options) RepeatsModule(module string) bool {
	return slices.Contains(strings.Split(t.Recompute, ","), module)
}

// ByModule reports whether Recompute is a list of modules.
func (t Options) ByModule() bool { return t.Recompute != "selective" && t.modules() != 0 }

// Check reports recomputation of parts that a network does not have.
func (t Options) Check(n network.Network) error {
	var known []string
	if t.ByModule() {
		known = n.Modules()
	}
	for _, m := range network.ModuleNames() {
		if !t.ByModule() || t.modules()&m.Parts == 0 || slices.Contains(known, m.Name) {
			continue
		}
		use := "use none or full"
		if known != nil {
			use = "it has " + strings.Join(known, ", ")
		}
		return fmt.Errorf("recompute = %q: %s has %s for %s; %s", t.Recompute, n.Name, m.Without, m.Name, use)
	}
	if t.RecomputeLayers > 0 && !slices.ContainsFunc(n.Layers, network.Layer.IsBlock) {
		return fmt.Errorf("recompute_layers = %d: is a number of blocks of a transformer, and %s has no blocks; set 0",
			t.RecomputeLayers, n.Name)
	}
	return nil
}
