package stages

import (
	"iter"
	"slices"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// wiringExchanges lists the all-to-alls of all stages, and what goes on beside the parts of their
// passes; nil where experts are as all else.
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

// bucketPartsOf finds, by bucket of gradients, the part of a backward with which it is complete.
func (staged *Staged) bucketPartsOf(st *Stage) []int {
	of, leaves := bucketByTensor(st.Buckets), make([]int, len(st.Buckets))
	part := 0
	var known network.Layer
	var made []int // by tensor of the layer that is known
	for i, l := range slices.Backward(st.Layers) {
		for _, again := range staged.Training.RepeatedBefore(st.Layers, i) {
			part += countExchanges(slices.Values(staged.Training.Repeated(again)), network.Forward)
		}
		if !l.Shares(known) || len(made) != len(st.Held[i]) {
			known, made = l, gradientParts(l, st.Held[i])
		}
		for j, t := range st.Held[i] {
			if k, ok := of[t.Name]; ok {
				leaves[k] = max(leaves[k], part+made[j])
			}
		}
		part += countExchanges(slices.Values(l.Ops), network.InputGradient)
	}
	return leaves
}

// gradientParts finds, by tensor of a layer, the part of its backward that makes the gradient:
// the last, where no operation does.
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

// awaitedGathersOf counts, by part of a forward, the gathers that bring the parameters it needs.
func (staged *Staged) awaitedGathersOf(st *Stage) (awaits []int) {
	if st.Ahead == nil {
		return nil
	}
	gathers, layers := 0, st.Layers
	awaits = []int{0}
	for _, piece := range st.Ahead {
		gathers += len(piece.collectives())
		awaits[len(awaits)-1] = gathers
		for _, l := range layers[:piece.Layers] {
			for range countExchanges(slices.Values(l.Ops), network.Forward) {
				awaits = append(awaits, gathers)
			}
		}
		layers = layers[piece.Layers:]
	}
	return awaits
}

// exchangesIn counts the all-to-alls among one pass of operations.
func countExchanges(ops iter.Seq[network.Op], pass network.Pass) (n int) {
	for o := range ops {
		if o.Exchanges[pass].Collective == group.AllToAll {
			n++
		}
	}
	return n
}

// An Exchange is an all-to-all of an expert group within a pass of a stage, which it
// parts in two.
type Exchange struct {
	Layer int   // of the stage
	Bytes int64 // that a device sends to others, per sample
}

// Exchanges lists the all-to-alls of a pass of a stage, F, B or I, in the order in which
// it comes to them; W has none.
func (staged *Staged) Exchanges(stage int, k graph.Kind) []Exchange {
	switch k {
	case graph.Forward:
		return staged.Stages[stage].forwardExchanges
	case graph.WeightGradient:
		return nil
	}
	return staged.Stages[stage].backwardExchanges
}

// PartsOf is the number of parts into which a pass of a stage is cut when all of it is: at
// its all-to-alls, or else where gradients leave or parameters come.
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

func (staged *Staged) exchanges(layers []network.Layer, k graph.Kind) []Exchange {
	if !staged.Network.Group.Dispatches() {
		return nil
	}
	var list []Exchange
	if k == graph.Forward {
		for i, l := range layers {
			list = staged.appendExchanges(list, i, slices.Values(l.Ops), network.Forward)
		}
		return list
	}
	for i, l := range slices.Backward(layers) {
		again := staged.Training.RepeatedBefore(layers, i)
		for k, r := range again {
			list = staged.appendExchanges(list, i+1-len(again)+k, slices.Values(staged.Training.Repeated(r)), network.Forward)
		}
		list = staged.appendExchanges(list, i, reversed(l.Ops), network.InputGradient)
	}
	return list
}

func reversed(ops []network.Op) func(func(network.Op) bool) {
	return func(yield func(network.Op) bool) {
		for _, o := range slices.Backward(ops) {
			if !yield(o) {
				return
			}
		}
	}
}

// exchanged appends the all-to-alls among one pass of operations.
func (staged *Staged) appendExchanges(list []Exchange, layer int, ops func(func(network.Op) bool), pass network.Pass) []Exchange {
	for o := range ops {
		if o.Exchanges[pass].Collective == group.AllToAll {
			whole := o.Exchanges[pass].Bytes(staged.Training.ActivationElement(), 1)
			list = append(list, Exchange{layer, staged.Network.SentToExperts(whole)})
		}
	}
	return list
}
