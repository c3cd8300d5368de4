package train

import (
	"slices"

	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/kernels"
)

// A rankState is one rank of one replica: a device, the tensors that it holds from step to step,
// and the stages that it runs. If two stages of the rank use a tensor, it is held once.
type rankState struct {
	device     *backend.LocalDevice
	arithmetic *kernels.Arithmetic
	stages     []*rankStage

	// sharded says that tensors are shards of units. The stages hold whole tensors only for one
	// task at a time.
	sharded    bool
	tensors    []network.Tensor
	index      map[string]int // in tensors
	parameters backend.Tensors
	gradients  backend.Tensors // summed over the microbatches so far
	// frozen tensors are not trained: they keep their first values, and have no gradients.
	frozen       []network.Tensor
	frozenIndex  map[string]int // in frozen
	frozenValues backend.Tensors
	updates      *kernels.Updates
	state        kernels.OptimizerState
	// model and kept are held only by the simplified form of sharding: the whole model and, by
	// unit, the last whole gradients.
	model backend.Tensors
	kept  map[string]backend.Tensors
}

// A rankStage is a stage on a rank: consecutive segments, in forward order.
type rankStage struct {
	*rankState
	segments []*segment
}

// A segment is layers that are compiled together.
type segment struct {
	bySize         map[int64]*kernels.Programs // by samples of a microbatch
	withoutDropout map[int64]*kernels.Programs // nil until it is needed
	// at says where its parameters are among those of the rank, or of the units of its stage.
	at []int
	// frozenAt says where its frozen parameters are among those of the rank.
	frozenAt []int
	// part of the stage's backward that runs the segment.
	part uint16
}

// any returns the programs for one of the sizes.
func (g *segment) any() *kernels.Programs {
	for _, p := range g.bySize {
		return p
	}
	return nil
}

// addTensors adds the tensors of a segment to those of the rank, unless the stage is sharded.
func (m *rankState) addTensors(g *segment, tensors, whole []network.Tensor) {
	for _, t := range tensors {
		if m.sharded {
			g.at = append(g.at, slices.IndexFunc(whole, func(x network.Tensor) bool { return x.Name == t.Name }))
			continue
		}
		g.at = append(g.at, once(&m.tensors, m.index, t))
	}
}

// addFrozen adds the frozen tensors of a segment to those of the rank.
func (m *rankState) addFrozen(g *segment) {
	for _, t := range g.any().Frozen() {
		g.frozenAt = append(g.frozenAt, once(&m.frozen, m.frozenIndex, t))
	}
}

// once adds a tensor to a list with an index by names, if it is not there, and returns its place.
func once(list *[]network.Tensor, index map[string]int, t network.Tensor) int {
	i, ok := index[t.Name]
	if !ok {
		i = len(*list)
		index[t.Name] = i
		*list = append(*list, t)
	}
	return i
}

// withFrozen adds the segment's frozen tensors to its others, as passes take them.
func (g *segment) withFrozen(list, frozen backend.Tensors) backend.Tensors {
	for _, at := range g.frozenAt {
		list = append(list, frozen[at])
	}
	return list
}

// pick takes the segment's tensors from a list, which still holds them.
func (g *segment) pick(from backend.Tensors) backend.Tensors {
	list := make(backend.Tensors, len(g.at))
	for i, at := range g.at {
		list[i] = from[at]
	}
	return list
}

// put puts tensors that have replaced the picked ones back into the list.
func (g *segment) put(list, to backend.Tensors) {
	for i, at := range g.at {
		to[at] = list[i]
	}
}

// start makes gradients and the optimizer's state zero.
func (m *rankState) start() (err error) {
	if m.gradients, err = kernels.Zeros(m.device, m.tensors); err != nil {
		return err
	}
	return m.updates.Begin(m.device, &m.state)
}

// release frees the tensors of a rank, but not its programs. It does nothing to nil, a rank of
// another process.
func (m *rankState) release() {
	if m == nil {
		return
	}
	m.parameters.Release()
	m.frozenValues.Release()
	m.gradients.Release()
	m.state.Release()
	m.model.Release()
	for _, whole := range m.kept {
		whole.Release()
	}
	m.parameters, m.frozenValues, m.gradients, m.model, m.kept = nil, nil, nil, nil, nil
}
