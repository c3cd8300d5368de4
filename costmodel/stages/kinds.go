package stages

import (
	"slices"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// layerKinds derives what a pass exchanges. Blocks that share their operations are looked at once: a network has
// a few kinds of layers, however many layers and stages it has.
type layerKinds struct {
	staged *Staged
	list   []layerKind
}

// A layerKind is what layers that share operations exchange with experts, in bytes per sample.
type layerKind struct {
	layer                        network.Layer
	forward, repeated, gradients []int64 // of F, of what is repeated before the backward, and of B
	parts                        []int   // of gradientParts, for the number of tensors that they are for
}

// of returns the kind of a layer. It is valid until the next call.
func (k *layerKinds) of(l network.Layer) *layerKind {
	at := slices.IndexFunc(k.list, func(known layerKind) bool { return known.layer.Shares(l) })
	if at >= 0 {
		return &k.list[at]
	}
	kind := layerKind{
		layer: l, forward: k.exchanged(l.Ops, network.Forward), gradients: k.exchanged(l.Ops, network.InputGradient),
		repeated: k.exchanged(k.staged.Training.Repeated(l), network.Forward),
	}
	slices.Reverse(kind.gradients)
	k.list = append(k.list, kind)
	return &k.list[len(k.list)-1]
}

// exchanged lists the bytes of the all-to-alls in a pass of operations.
func (k *layerKinds) exchanged(ops []network.Op, pass network.Pass) (bytes []int64) {
	for _, o := range ops {
		if o.Exchanges[pass].Collective == group.AllToAll {
			whole := o.Exchanges[pass].Bytes(k.staged.Training.ActivationElement(), 1)
			bytes = append(bytes, k.staged.Network.SentToExperts(whole))
		}
	}
	return bytes
}

// appended adds the all-to-alls of a layer to a list.
func appended(list []Exchange, layer int, bytes []int64) []Exchange {
	for _, b := range bytes {
		list = append(list, Exchange{layer, b})
	}
	return list
}

// forward lists the all-to-alls of the forward of a stage.
func (k *layerKinds) forward(layers []network.Layer) (list []Exchange) {
	if !k.staged.Network.Group.Dispatches() {
		return nil
	}
	for i, l := range layers {
		list = appended(list, i, k.of(l).forward)
	}
	return list
}

// backward lists the all-to-alls of the backward of a stage.
func (k *layerKinds) backward(layers []network.Layer) (list []Exchange) {
	if !k.staged.Network.Group.Dispatches() {
		return nil
	}
	for i, l := range slices.Backward(layers) {
		repeated := k.staged.Training.RepeatedBefore(layers, i)
		for j, r := range repeated {
			list = appended(list, i+1-len(repeated)+j, k.of(r).repeated)
		}
		list = appended(list, i, k.of(l).gradients)
	}
	return list
}

// bucketParts returns, for every bucket of gradients, the part of the backward that completes
// it.
func (k *layerKinds) bucketParts(st *Stage) []int {
	completed, part := make([]int, len(st.Buckets)), 0
	if k.staged.Zero >= 3 { // of experts, and of everything else
		completed = make([]int, 2)
	}
	for i, l := range slices.Backward(st.Layers) {
		for _, repeated := range k.staged.Training.RepeatedBefore(st.Layers, i) {
			part += len(k.of(repeated).repeated)
		}
		kind := k.of(l)
		if len(kind.parts) != len(st.Held[i]) {
			kind.parts = gradientParts(l, st.Held[i])
		}
		for j := range st.Held[i] {
			if bucket, summed := k.bucketOf(st, i, j); summed {
				completed[bucket] = max(completed[bucket], part+kind.parts[j])
			}
		}
		part += len(kind.gradients)
	}
	return completed
}

// bucketOf returns the bucket of a tensor of a layer: 0 for experts under ZeRO 3, and 1 for everything else. It
// returns false if no gradients are summed.
func (k *layerKinds) bucketOf(st *Stage, layer, tensor int) (bucket int, summed bool) {
	switch {
	case k.staged.Zero >= 3:
		return 1 - kindOf(k.staged.dispatched(st.Held[layer][tensor])), true
	case st.BucketOf == nil:
		return 0, false
	}
	return st.BucketOf[layer][tensor], true
}

// gradientParts returns, for every tensor of a layer, the part of the layer's backward that
// makes its gradient: the last part if no operation makes it.
func gradientParts(l network.Layer, held []network.Tensor) []int {
	parts := slices.Repeat([]int{-1}, len(held))
	part := 0
	for _, o := range slices.Backward(l.Ops) {
		if o.Exchanges[network.InputGradient].Collective == group.AllToAll {
			part++
			continue
		}
		for j, t := range held {
			if parts[j] < 0 && o.Class != network.Exchange && o.Makes(t) {
				parts[j] = part
			}
		}
	}
	for j := range parts {
		if parts[j] < 0 {
			parts[j] = part
		}
	}
	return parts
}

// awaitedGathers returns, for every part of a forward, the number of gathers that must have
// ended before it can start.
func (k *layerKinds) awaitedGathers(st *Stage) (awaited []int) {
	if st.Ahead == nil {
		return nil
	}
	gathers, layers := 0, st.Layers
	awaited = []int{0}
	for _, piece := range st.Ahead {
		gathers += len(piece.collectives())
		awaited[len(awaited)-1] = gathers
		for _, l := range layers[:piece.Layers] {
			for range k.of(l).forward {
				awaited = append(awaited, gathers)
			}
		}
		layers = layers[piece.Layers:]
	}
	return awaited
}
