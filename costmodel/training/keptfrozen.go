package training

import (
	"slices"
	"strings"

	"psim/costmodel/network"
)

// A keeping decides which buffers of a layer stay where products are frozen.
type keeping struct {
	*working
	have          []network.Buffer
	claimed, drop []bool // by buffer: whether a product has been found for it, and whether it goes
	fused         bool   // attention is one kernel
	added         []network.Buffer
}

// buffers lists what a layer keeps. A frozen product keeps no input and no gradient of its result; an
// adapter keeps the input once for all products that read it, or with dropout its own. Nothing is
// kept for operations through which no gradient goes back.
func (w *working) buffers(l network.Layer) (kept []network.Buffer) {
	k := keeping{working: w, have: slices.Clone(l.Buffers)}
	k.claimed, k.drop = make([]bool, len(k.have)), make([]bool, len(k.have))
	k.fused = slices.ContainsFunc(l.Ops, func(o network.Op) bool { return o.Class == network.Attention })
	for i := range w.groups {
		k.inputs(&w.groups[i])
		k.gradients(&w.groups[i])
		k.added = append(k.added, w.groups[i].kept...)
	}
	for i, b := range k.have {
		switch {
		case k.drop[i], w.isDead(b):
		case k.claimed[i], b.Lifetime == network.ForwardToInput:
			kept = append(kept, b)
		}
	}
	return append(kept, k.added...)
}

// find finds the buffer of n elements of a product that no earlier product has claimed; −1 if there is none.
func (k *keeping) find(lifetime network.Lifetime, o network.Op, n int64) int {
	for i, b := range k.have {
		if !k.claimed[i] && b.Lifetime == lifetime && b.ElementBytes == 0 && half(b.Name) == half(o.Name) &&
			b.Shape.Elements() == n {
			k.claimed[i] = true
			return i
		}
	}
	return -1
}

// hasInput reports whether an input of n elements stays for another group, as in a parallel block.
func (k *keeping) hasInput(n int64) bool {
	for i, b := range k.have {
		if k.claimed[i] && !k.drop[i] && b.Lifetime == network.ForwardToWeight && b.Shape.Elements() == n {
			return true
		}
	}
	return false
}

// inputs decides whether the left operand of products stays for adapters.
func (k *keeping) inputs(g *linearGroup) {
	first := g.products[0]
	n := max(1, first.Count) * first.Rows * first.Inner
	i, keeps := k.find(network.ForwardToWeight, first, n), g.trains() && k.Adapter.Dropout == 0 && !k.Adapter.FP32
	switch {
	case i < 0 && keeps && !k.hasInput(n):
		k.added = append(k.added, network.Buffer{
			Name: first.Name + ".input", Shape: network.Dims{int(first.Rows), int(first.Inner)},
			Lifetime: network.ForwardToWeight, Modules: first.Modules,
		})
	case i < 0 || keeps:
	case k.fused && strings.HasSuffix(k.have[i].Name, "context") && !k.deadCore:
		k.have[i].Lifetime = network.ForwardToInput // attention's I reads it
	default:
		k.drop[i] = true
	}
	if k.packs(first) && k.Adapter.HeldInputs {
		k.held(first, n, keeps || i >= 0 && !k.drop[i])
	}
}

// held adds what 4-bit products hold of a left operand of n elements: their own, unless it stays in any case, and
// that of the graph before, which is still there when a forward ends.
func (k *keeping) held(first network.Op, n int64, stays bool) {
	copies := 2
	if stays {
		copies = 1
	}
	k.added = append(k.added, network.Buffer{Name: first.Name + ".held", Shape: network.Dims{copies, int(n)}})
}

// gradients decides which gradients of the results of products stay for W: those of products with adapters.
func (k *keeping) gradients(g *linearGroup) {
	size := func(p network.Op) int64 { return max(1, p.Count) * p.Rows * p.Cols }
	var all, adapted int64
	for j, p := range g.products {
		if all += size(p); g.adapted[j] {
			adapted += size(p)
		}
	}
	if i := k.find(network.InputToWeight, g.products[0], all); i >= 0 {
		rows := g.products[0].Rows
		k.have[i].Shape, k.drop[i] = network.Dims{int(rows), int(adapted / rows)}, adapted == 0
		return
	}
	for j, p := range g.products {
		if i := k.find(network.InputToWeight, p, size(p)); i >= 0 {
			k.drop[i] = !g.adapted[j]
		}
	}
}

// half returns the half of a block that a name belongs to: the part before the first dot.
func half(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return strings.Replace(name, "block_sparse_moe", "mlp", 1)
}

// isDead reports whether a buffer is for an operation through which no gradient goes back.
func (w *working) isDead(b network.Buffer) bool {
	if !w.live {
		return true
	}
	at := strings.LastIndexByte(b.Name, '.')
	if dead, known := w.dead[b.Name[:max(0, at)]]; known {
		return dead && b.Lifetime == network.ForwardToInput
	}
	if _, last, _ := strings.Cut(b.Name, "."); last == "q" || last == "k" || last == "v" {
		return w.deadCore
	}
	return false
}
