package training

import (
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/frozen"
	"psim/costmodel/network"
)

// What is trained of a layer.
type trainedPart uint8

const (
	allTrained   trainedPart = iota
	nothing                  // the layer is frozen
	onlyAdapters             // the layer is frozen and has adapters
)

// A freezing rewrites a network with frozen parts. It goes forward and knows whether the
// gradient of what it has reached is wanted.
type freezing struct {
	Options
	live bool
	// made holds what layers with the same operations became.
	made map[frozenKey]frozenWork
	// frozen are the names of the frozen tensors so far.
	frozen map[string]bool
}

// A frozenKey is what the work of a layer with frozen parts depends on.
type frozenKey struct {
	ops   *network.Op
	part  trainedPart
	live  bool
	block bool
}

// A frozenWork is the work of a layer with frozen parts.
type frozenWork struct {
	ops         []network.Op
	buffers     []network.Buffer
	live        bool // the gradient of the result is wanted
	keepsOutput bool // W needs the gradient of the result
}

// Adapted returns a network with its frozen parts, and adapters in their places. It does nothing if all is
// trained. CheckFrozen has to accept the network.
func (t Options) Adapted(n network.Network) network.Network {
	if !t.Adapts() && t.Frozen == "" {
		return n
	}
	f := freezing{Options: t, made: map[frozenKey]frozenWork{}, frozen: map[string]bool{}}
	n.Layers = slices.Clone(n.Layers)
	blocks := 0
	for i := range n.Layers {
		l := &n.Layers[i]
		block := -1
		if l.IsBlock() {
			block, blocks = blocks, blocks+1
		}
		f.layer(l, f.partOf(*l, block))
		if i == 0 && t.Adapter.InputGradients {
			f.live = true
		}
	}
	return n
}

// partOf says what is trained of a layer. block is the number of a block, or −1.
func (f *freezing) partOf(l network.Layer, block int) trainedPart {
	if f.Adapts() {
		has := func(o network.Op) bool { return isLinear(o) && f.Adapter.targets(o, block >= 0) }
		if slices.ContainsFunc(l.Ops, has) {
			return onlyAdapters
		}
		return nothing
	}
	if slices.ContainsFunc(l.Tied, func(t network.Tensor) bool { return f.frozen[t.Name] }) {
		return nothing
	}
	for _, name := range strings.Split(string(f.Frozen), ",") {
		first, last, _ := blocksOf(name)
		if block >= 0 && first <= block && block <= last || block < 0 && isPart(l, name) {
			return nothing
		}
	}
	return allTrained
}

// isPart reports whether a layer that is not a block is the embedding, the last norm or the head.
func isPart(l network.Layer, name string) bool {
	has := func(test func(network.Op) bool) bool { return slices.ContainsFunc(l.Ops, test) }
	switch name {
	case "embedding":
		return has(func(o network.Op) bool { return o.Class == network.Lookup })
	case "head":
		return has(func(o network.Op) bool { return targetOf(o.Name) == "head" })
	case "norm":
		return len(l.Ops) == 1 && l.NormParameters() == l.Parameters() && l.NormParameters() > 0
	}
	return false
}

// isLinear reports whether an operation is the product of a linear layer.
func isLinear(o network.Op) bool { return o.Class == network.Product && o.Weight }

// layer rewrites a layer, given what is trained of it.
func (f *freezing) layer(l *network.Layer, part trainedPart) {
	if part == allTrained && f.live {
		return
	}
	work := f.work(l, part)
	l.Ops, l.Buffers, f.live = work.ops, work.buffers, work.live
	if part == allTrained {
		l.Lowest = true
		return
	}
	if f.Adapts() {
		l.Kind = network.KindUnknown // executors do not know adapters
	}
	l.KeepsGradient = l.KeepsGradient && work.keepsOutput
	l.ForwardOnly = !f.live
	l.Frozen, l.FrozenTied, l.Tied = f.formats(*l), l.Tied, nil
	for _, t := range l.Frozen {
		f.frozen[t.Name] = true
	}
	l.Params = nil
	if part == onlyAdapters {
		l.Params = f.adapterTensors(*l)
	}
}

// work returns the work of a layer, once for all that have the same.
func (f *freezing) work(l *network.Layer, part trainedPart) frozenWork {
	var key frozenKey
	if len(l.Ops) > 0 {
		key = frozenKey{&l.Ops[0], part, f.live, l.IsBlock()}
		if work, ok := f.made[key]; ok {
			return work
		}
	}
	work := frozenWork{slices.Clone(l.Ops), l.Buffers, true, true}
	if part != allTrained {
		w := working{freezing: f, block: l.IsBlock(), adapts: part == onlyAdapters, live: f.live}
		w.follow(*l)
		work = frozenWork{w.ops, w.buffers(*l), w.live, w.keepsOutput}
	} else if len(work.ops) > 0 && isLinear(work.ops[0]) {
		work.ops[0].NoInputGradient = true
	}
	if len(l.Ops) > 0 {
		f.made[key] = work
	}
	return work
}

// formats lists the tensors of a layer as they are held when frozen. Those of linear layers in blocks
// may be in 4 bits.
func (f *freezing) formats(l network.Layer) []network.Tensor {
	list := slices.Clone(l.Params)
	for i, t := range list {
		switch {
		case f.Adapter.Kind != AdapterQLoRA:
		case (l.IsBlock() || f.Adapter.PackedHead && isPart(l, "head")) && !t.Norm && len(t.Shape) > 1:
			list[i].Format = f.packed()
		case f.Adapter.Prepared:
			list[i].Format = frozen.FP32
		}
	}
	return list
}

// packed returns the format of weights in 4 bits.
func (f *freezing) packed() frozen.Format {
	format := frozen.NF4
	if f.Adapter.DoubleQuant {
		format = frozen.NF4Double
	}
	if f.Adapter.FP16Unpacked && f.Base() == "bf16" {
		format += frozen.NF4Cast - frozen.NF4
	}
	return format
}

// The names of an adapter's two products and of its dropout, which follow the name of the frozen product.
const (
	adapterPrefix = ".lora_"
	adapterDown   = adapterPrefix + "A"
	adapterUp     = adapterPrefix + "B"

	adapterDropout = adapterPrefix + "dropout"
)

// adapterTensors lists the tensors of a layer's adapters, whose operations it has already.
func (f *freezing) adapterTensors(l network.Layer) (list []network.Tensor) {
	for _, o := range l.Ops {
		if !strings.HasSuffix(o.Name, adapterDown) && !strings.HasSuffix(o.Name, adapterUp) {
			continue
		}
		t := network.Tensor{
			Name: l.Name + "." + o.Name + ".weight", Shape: network.Dims{int(o.Cols), int(o.Inner)},
			Expert: o.Experts > 0,
		}
		list = append(list, t)
		for e := int64(1); e < o.Experts; e++ { // each expert has its own
			t.Name = fmt.Sprintf("%s.%s.%d.weight", l.Name, o.Name, e)
			list = append(list, t)
		}
	}
	return list
}
