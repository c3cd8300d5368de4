package stages

import (
	"slices"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// An Exchange is an all-to-all of an expert group within a pass of a stage. It cuts the pass in
// two.
type Exchange struct {
	Layer int   // index in the stage
	Bytes int64 // that a device sends to other devices, per sample
}

// Exchanges lists the all-to-alls of a pass of a stage (F, B or I) in the order in which the
// pass runs them. W has none.
func (staged *Staged) Exchanges(stage int, k graph.Kind) []Exchange {
	switch k {
	case graph.Forward:
		return staged.Stages[stage].forwardExchanges
	case graph.WeightGradient:
		return nil
	}
	return staged.Stages[stage].backwardExchanges
}

// PartsOf is the number of parts into which a pass of a stage is cut: at its all-to-alls, or
// without any where gradients leave (backward) or parameters arrive (forward).
func (staged *Staged) PartsOf(stage int, k graph.Kind) int {
	st := &staged.Stages[stage]
	switch exchanges := len(staged.Exchanges(stage, graph.Forward)); {
	case exchanges > 0 && k == graph.Forward:
		return exchanges + 1
	case exchanges > 0:
		return len(staged.Exchanges(stage, k)) + 1
	case k == graph.Forward:
		return max(1, len(st.Ahead))
	}
	return staged.Parts(st)
}

// exchanges lists the all-to-alls of a forward or a backward of layers.
func (staged *Staged) exchanges(layers []network.Layer, k graph.Kind) []Exchange {
	if !staged.Network.Group.Dispatches() {
		return nil
	}
	var list []Exchange
	add := func(layer int, ops []network.Op, pass network.Pass) {
		for _, o := range ops {
			if o.Exchanges[pass].Collective == group.AllToAll {
				whole := o.Exchanges[pass].Bytes(staged.Training.ActivationElement(), 1)
				list = append(list, Exchange{layer, staged.Network.SentToExperts(whole)})
			}
		}
	}
	if k == graph.Forward {
		for i, l := range layers {
			add(i, l.Ops, network.Forward)
		}
		return list
	}
	for i, l := range slices.Backward(layers) {
		repeated := staged.Training.RepeatedBefore(layers, i)
		for k, r := range repeated {
			add(i+1-len(repeated)+k, staged.Training.Repeated(r), network.Forward)
		}
		backward := len(list)
		add(i, l.Ops, network.InputGradient)
		slices.Reverse(list[backward:])
	}
	return list
}

// wiringExchanges returns the all-to-alls of all stages as the wiring takes them; nil if experts
// are divided as the rest of their layer.
func (staged *Staged) wiringExchanges() []wiring.Exchanges {
	if !staged.Network.Group.Dispatches() {
		return nil
	}
	list := make([]wiring.Exchanges, len(staged.Stages))
	for s := range list {
		e := &list[s]
		for _, x := range staged.Exchanges(s, graph.Forward) {
			e.Forward = append(e.Forward, x.Bytes)
		}
		for _, x := range staged.Exchanges(s, graph.Backward) {
			e.Backward = append(e.Backward, x.Bytes)
		}
		e.Leaves, e.Awaits = staged.Stages[s].bucketParts, staged.Stages[s].awaitedGathers
	}
	return list
}

// bucketPartsOf returns, for every bucket of gradients, the part of the backward that completes
// it.
func (staged *Staged) bucketPartsOf(st *Stage) []int {
	completed := make([]int, len(st.Buckets))
	part := 0
	var last network.Layer
	var parts []int // of the tensors of the last layer
	for i, l := range slices.Backward(st.Layers) {
		for _, repeated := range staged.Training.RepeatedBefore(st.Layers, i) {
			part += countExchanges(staged.Training.Repeated(repeated), network.Forward)
		}
		if !l.Shares(last) || len(parts) != len(st.Held[i]) {
			last, parts = l, gradientParts(l, st.Held[i])
		}
		if st.BucketOf != nil {
			for j, k := range st.BucketOf[i] {
				completed[k] = max(completed[k], part+parts[j])
			}
		}
		part += countExchanges(l.Ops, network.InputGradient)
	}
	return completed
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

// awaitedGathersOf returns, for every part of a forward, the number of gathers that must have
// ended before it can start.
func (staged *Staged) awaitedGathersOf(st *Stage) (awaited []int) {
	if st.Ahead == nil {
		return nil
	}
	gathers, layers := 0, st.Layers
	awaited = []int{0}
	for _, piece := range st.Ahead {
		gathers += len(piece.collectives())
		awaited[len(awaited)-1] = gathers
		for _, l := range layers[:piece.Layers] {
			for range countExchanges(l.Ops, network.Forward) {
				awaited = append(awaited, gathers)
			}
		}
		layers = layers[piece.Layers:]
	}
	return awaited
}

// countExchanges returns the number of all-to-alls in a pass of operations.
func countExchanges(ops []network.Op, pass network.Pass) (n int) {
	for _, o := range ops {
		if o.Exchanges[pass].Collective == group.AllToAll {
			n++
		}
	}
	return n
}
