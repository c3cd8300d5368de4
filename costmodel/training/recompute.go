package training

import (
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/network"
)

// The legal values of Training.Selective: what selective recomputation runs again.
const (
	// SelectiveAttention is the core of attention (Korthikanti et al. 2022, section 5). A
	// fused core keeps no square, and nothing is left to repeat.
	SelectiveAttention = "attention"
	// SelectiveOperations keeps the results of single operations, and runs the others of a
	// block again: kept are those of fused attention, of reduce-scatters, and of every other
	// product with a weight, from the first (torchtitan, parallelize_llama.py of 2024, with
	// selective_ac_option = "op").
	SelectiveOperations = "operations"
)

// Kept lists what a layer holds between F and the start of its backward. Under
// recomputation that is less than l.Buffers; backward then begins with
// Repeated(l), after which all of l.Buffers are present.
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

// Repeats reports whether a layer keeps its input at most and runs F again.
func (t Options) Repeats(l network.Layer) bool {
	return t.Recompute == "full" && l.Repeatable && !l.KeptWhole
}

// The legal values of Training.RecomputeMethod, as Megatron-LM has them: which blocks full
// recomputation repeats, and how many from one input, where RecomputeLayers is not 0.
const (
	RecomputeUniform = "uniform" // all, so many of a stage at a time
	RecomputeBlock   = "block"   // the first so many of a stage, each from its own input
)

// Units marks what full recomputation repeats of a network that is cut into stages of so
// many layers each.
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

// Repeating lists the layers of a stage that run F again before the backward of one of
// them: itself, or all that are repeated together where it is the last of these.
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

// Repeated lists the operations whose F runs a second time before backward: those of
// modules, all that is not saved, or all operations of a Repeatable layer, which are not to
// be changed.
func (t Options) Repeated(l network.Layer) []network.Op {
	if t.byOperation(l) {
		_, again := l.SavedOps()
		return again
	}
	if t.Repeats(l) {
		return slices.Clip(l.Ops)
	}
	modules := t.modules()
	var again []network.Op
	for _, op := range l.Ops {
		if op.Modules&modules != 0 {
			again = append(again, op)
		}
	}
	return again
}

// byOperation reports whether a layer keeps its input and the results of single operations:
// it is a transformer's block.
func (t Options) byOperation(l network.Layer) bool {
	return t.Recompute == "selective" && t.Selective == SelectiveOperations && l.IsBlock()
}

// modules lists what recomputation repeats by parts.
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

// Lists reports whether recomputation is a list with a module.
func (t Options) RepeatsModule(module string) bool {
	return slices.Contains(strings.Split(t.Recompute, ","), module)
}

// ByModule reports whether recomputation is a list of modules.
func (t Options) ByModule() bool { return t.Recompute != "selective" && t.modules() != 0 }

// Check reports what recomputation asks of a network that has no such thing.
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
		return fmt.Errorf("recompute_layers = %d: counts the blocks of a transformer, and %s has none; set 0", t.RecomputeLayers, n.Name)
	}
	return nil
}
