package stages

import (
	"iter"
	"slices"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// sumsExperts reports whether a tensor is of experts that are not on the devices that have
// the rest of their layer.
func (staged *Staged) sumsExperts(t network.Tensor) bool {
	return t.Expert && staged.Network.Group.Dispatches()
}

// summed reports whether several devices hold the same parameters, or the same experts.
func (staged *Staged) summed() bool {
	return staged.holders() > 1 || staged.Network.Group.Dispatches() && staged.expertReplicas() > 1
}

// expertGroup tells over how many replicas an expert group is, and how many devices of each
// of their ranks exchange tokens: of those that divide an expert, one.
func (staged *Staged) expertGroup() (span, width int) {
	g := staged.Network.Group
	return max(1, g.ExpertDevices()/g.All()), min(max(1, g.Expert), max(1, g.All()*max(1, g.Expert)/g.ExpertDevices()))
}

// cuts lists the all-to-alls of all stages, and what goes on beside the parts of their
// passes; nil where experts are as all else.
func (staged *Staged) cuts() []wiring.Exchanges {
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
		e.Leaves, e.Awaits = staged.Stages[s].leaves, staged.Stages[s].awaits
	}
	return list
}

// leaves finds, by bucket of gradients, the part of a backward with which it is complete.
func (staged *Staged) leaves(st *Stage) []int {
	of, leaves := bucketOf(st.Buckets), make([]int, len(st.Buckets))
	part := 0
	var known network.Layer
	var made []int // by tensor of the layer that is known
	for i, l := range slices.Backward(st.Layers) {
		for _, again := range staged.Training.RepeatedBefore(st.Layers, i) {
			part += exchangesIn(slices.Values(staged.Training.Repeated(again)), network.Forward)
		}
		if !l.Shares(known) || len(made) != len(st.Held[i]) {
			known, made = l, partsOf(l, st.Held[i])
		}
		for j, t := range st.Held[i] {
			if k, ok := of[t.Name]; ok {
				leaves[k] = max(leaves[k], part+made[j])
			}
		}
		part += exchangesIn(slices.Values(l.Ops), network.InputGradient)
	}
	return leaves
}

// partsOf finds, by tensor of a layer, the part of its backward that makes the gradient:
// the last, where no operation does.
func partsOf(l network.Layer, held []network.Tensor) []int {
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

// awaits counts, by part of a forward, the gathers that bring the parameters it needs.
func (staged *Staged) awaits(st *Stage) (awaits []int) {
	if st.Ahead == nil {
		return nil
	}
	gathers, layers := 0, st.Layers
	awaits = []int{0}
	for _, piece := range st.Ahead {
		gathers += len(piece.gathers())
		awaits[len(awaits)-1] = gathers
		for _, l := range layers[:piece.Layers] {
			for range exchangesIn(slices.Values(l.Ops), network.Forward) {
				awaits = append(awaits, gathers)
			}
		}
		layers = layers[piece.Layers:]
	}
	return awaits
}

// exchangesIn counts the all-to-alls among one pass of operations.
func exchangesIn(ops iter.Seq[network.Op], pass network.Pass) (n int) {
	for o := range ops {
		if o.Exchanges[pass].Collective == group.AllToAll {
			n++
		}
	}
	return n
}

// A gathering is what is gathered together: of experts on other devices apart, and last.
type gathering struct {
	bytes  int64
	expert bool
}

// gathers lists what is gathered for a piece.
func (p Piece) gathers() (list []gathering) {
	if p.Experts == 0 || p.Experts < p.Bytes {
		list = append(list, gathering{bytes: p.Bytes - p.Experts})
	}
	if p.Experts > 0 {
		list = append(list, gathering{p.Experts, true})
	}
	return list
}

// syncExperts tells experts apart in what the replicas sum and gather.
func (staged *Staged) syncExperts(sync *wiring.Sync) {
	sync.ExpertWidth = max(1, staged.Network.Group.All()/staged.Network.Group.ExpertDevices())
	sync.Experts = make([][]bool, len(staged.Stages))
	for s := range staged.Stages {
		st := &staged.Stages[s]
		for _, b := range st.Buckets {
			sync.Experts[s] = append(sync.Experts[s], b.Experts)
		}
		experts := staged.updated(st.Experts, st.NarrowExperts)
		sync.Parameters[s] -= experts
		sync.ExpertParameters = append(sync.ExpertParameters, experts)
		if sync.Ahead == nil {
			continue
		}
		sync.Ahead[s], sync.AheadExperts = nil, append(sync.AheadExperts, nil)
		for _, piece := range st.Ahead {
			for _, g := range piece.gathers() {
				sync.Ahead[s], sync.AheadExperts[s] = append(sync.Ahead[s], g.bytes), append(sync.AheadExperts[s], g.expert)
			}
		}
	}
}
