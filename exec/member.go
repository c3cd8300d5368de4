package exec

import (
	"slices"

	"psim/costmodel/network"
	"psim/exec/programs"
)

// A member is one rank of one replica: a device, what it holds from step to
// step, and the stages that it runs. A tensor that two stages of the rank use
// is there once.
type member struct {
	device     *programs.Device
	arithmetic *programs.Arithmetic
	stages     []*stage

	// sharded: tensors are parts of units, and the stages' own are there for
	// one task at a time.
	sharded    bool
	tensors    []network.Tensor
	index      map[string]int // in tensors
	parameters programs.List
	gradients  programs.List // summed over the microbatches so far
	updates    *programs.Updates
	state      programs.State
	// model and kept, by unit, are what the simplified form of sharding holds as well:
	// the whole model, and the last whole gradients.
	model programs.List
	kept  map[string]programs.List
}

// A stage is consecutive segments, in forward order.
type stage struct {
	*member
	segments []*segment
}

// A segment is layers that are compiled together.
type segment struct {
	bySize map[int64]*programs.Stage // by samples of a microbatch
	still  map[int64]*programs.Stage // the same without dropout; nil until it is needed
	at     []int                     // its parameters among the member's, or the units' of its stage
	// part of the stage's backward that runs the segment.
	part uint16
}

func (g *segment) any() *programs.Stage {
	for _, p := range g.bySize {
		return p
	}
	return nil
}

// learn adds a segment's tensors to the member's, unless they are whole for one
// task at a time.
func (m *member) learn(g *segment, tensors, whole []network.Tensor) {
	for _, t := range tensors {
		if m.sharded {
			g.at = append(g.at, slices.IndexFunc(whole, func(x network.Tensor) bool { return x.Name == t.Name }))
			continue
		}
		i, ok := m.index[t.Name]
		if !ok {
			i = len(m.tensors)
			m.index[t.Name] = i
			m.tensors = append(m.tensors, t)
		}
		g.at = append(g.at, i)
	}
}

// pick takes a segment's tensors from a list, which keeps them.
func (g *segment) pick(from programs.List) programs.List {
	list := make(programs.List, len(g.at))
	for i, at := range g.at {
		list[i] = from[at]
	}
	return list
}

// put gives tensors that have replaced the picked ones back to the list.
func (g *segment) put(list, to programs.List) {
	for i, at := range g.at {
		to[at] = list[i]
	}
}

// start makes gradients and the optimizer's state zero.
func (m *member) start() (err error) {
	if m.gradients, err = programs.Zeros(m.device, m.tensors); err != nil {
		return err
	}
	return m.updates.Begin(m.device, &m.state)
}

// release frees what a member holds. Programs are the trainer's. It does nothing to nil,
// a rank of another process.
func (m *member) release() {
	if m == nil {
		return
	}
	m.parameters.Release()
	m.gradients.Release()
	m.state.Release()
	m.model.Release()
	for _, whole := range m.kept {
		whole.Release()
	}
	m.parameters, m.gradients, m.model, m.kept = nil, nil, nil, nil
}
