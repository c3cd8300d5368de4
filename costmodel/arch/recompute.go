package arch

import (
	"cmp"
	"slices"
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
func (t Training) Kept(l Layer) []Buffer {
	input := Buffer{Name: "input", Shape: l.Input, Lifetime: ForwardToInput}
	var kept []Buffer
	switch {
	case t.Repeats(l) && l.Joined:
		return nil
	case t.Repeats(l):
		return []Buffer{input}
	case t.byOperation(l):
		kept = append(kept, input)
		saved, _ := l.divided()
		for _, op := range saved {
			kept = append(kept, op.results(l)...)
		}
		return kept
	}
	modules := t.modules()
	for _, b := range l.Buffers {
		if b.Lifetime != InputToWeight && b.Modules&modules == 0 {
			kept = append(kept, b)
		}
	}
	return kept
}

// Repeats reports whether a layer keeps its input at most and runs F again.
func (t Training) Repeats(l Layer) bool {
	return t.Recompute == "full" && l.Repeatable && !l.Whole
}

// The legal values of Training.RecomputeMethod, as Megatron-LM has them: which blocks full
// recomputation repeats, and how many from one input, where RecomputeLayers is not 0.
const (
	RecomputeUniform = "uniform" // all, so many of a stage at a time
	RecomputeBlock   = "block"   // the first so many of a stage, each from its own input
)

// Units marks what full recomputation repeats of a network that is cut into stages of so
// many layers each.
func (t Training) Units(n Network, stages []int) Network {
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
			if !l.block() {
				continue
			}
			l.Whole = t.RecomputeMethod == RecomputeBlock && blocks >= t.RecomputeLayers
			l.Joined = t.RecomputeMethod == RecomputeUniform && blocks%t.RecomputeLayers > 0
			blocks++
		}
		rest = rest[count:]
	}
	return n
}

// Repeating lists the layers of a stage that run F again before the backward of one of
// them: itself, or all that are repeated together where it is the last of these.
func (t Training) Repeating(stage []Layer, i int) []Layer {
	first := i
	switch {
	case !t.Repeats(stage[i]):
	case i+1 < len(stage) && stage[i+1].Joined:
		return nil
	default:
		for first > 0 && stage[first].Joined {
			first--
		}
	}
	return stage[first : i+1]
}

// Repeated lists the operations whose F runs a second time before backward: those of
// modules, all that is not saved, or all operations of a Repeatable layer, which are not to
// be changed.
func (t Training) Repeated(l Layer) []Op {
	if t.byOperation(l) {
		_, again := l.divided()
		return again
	}
	if t.Repeats(l) {
		return slices.Clip(l.Ops)
	}
	modules := t.modules()
	var again []Op
	for _, op := range l.Ops {
		if op.Modules&modules != 0 {
			again = append(again, op)
		}
	}
	return again
}

// byOperation reports whether a layer keeps its input and the results of single operations:
// it is a transformer's block.
func (t Training) byOperation(l Layer) bool {
	return t.Recompute == "selective" && t.Selective == SelectiveOperations && l.block()
}

// divided parts the operations of a block into those whose results SelectiveOperations
// keeps, and the others.
func (l Layer) divided() (saved, again []Op) {
	products := 0
	for _, op := range l.Ops {
		keep := op.Class == Attention
		switch {
		case op.Class == Product && op.Weight:
			keep = products%2 == 0
			products++
		case op.Class == Exchange:
			keep = op.Exchanges[Forward].Collective == ReduceScatter
		}
		if keep {
			saved = append(saved, op)
		} else {
			again = append(again, op)
		}
	}
	return saved, again
}

// results lists what an operation that is saved hands on; fused attention has a statistic
// of every row beside its context, and a reduce-scatter leaves a tensor as the layer's input.
func (o Op) results(l Layer) []Buffer {
	result := Buffer{Name: o.Name + ".result", Shape: Shape{int(o.Count * o.Rows), int(o.Cols)}, Sharded: o.Sharded && !o.RowParallel}
	switch o.Class {
	case Exchange:
		result.Shape = l.Input
	case Attention:
		result.Shape, result.Lifetime = Shape{int(o.Rows), int(o.Count * cmp.Or(o.Values, o.Inner))}, ForwardToWeight
		statistic := Buffer{Name: o.Name + ".statistic", Shape: Shape{int(o.Rows), int(o.Count)}, ElementBytes: 4, Sharded: o.Sharded}
		return []Buffer{result, statistic}
	}
	return []Buffer{result}
}
