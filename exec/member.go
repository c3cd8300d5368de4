package exec

import (
	"fmt"

	"psim/costmodel/arch"
	"psim/exec/programs"
)

// member is one rank of one replica: a device, what it holds from step to
// step, and the stages that it runs. A tensor that two stages of the rank use
// is there once.
type member struct {
	device     *programs.Device
	arithmetic *programs.Arithmetic
	stages     []*stage

	tensors    []arch.Tensor
	index      map[string]int // in tensors
	parameters programs.List
	// gradients of the step once all microbatches have added theirs; nil
	// before.
	gradients programs.List
	updates   *programs.Updates
	state     programs.State
}

// stage is consecutive segments, in forward order.
type stage struct {
	*member
	segments []*segment
}

// segment is layers that are compiled together.
type segment struct {
	bySize map[int]*programs.Stage // by samples of a microbatch
	at     []int                   // its parameters among the member's
	// sum of the gradients of the step's microbatches so far; nil at its start.
	sum programs.List
	// part of the stage's backward that runs the segment.
	part uint16
}

// any is the programs of some size.
func (g *segment) any() *programs.Stage {
	for _, p := range g.bySize {
		return p
	}
	return nil
}

// learn adds a segment's tensors to the member's.
func (m *member) learn(g *segment, tensors []arch.Tensor) {
	for _, t := range tensors {
		i, ok := m.index[t.Name]
		if !ok {
			i = len(m.tensors)
			m.index[t.Name] = i
			m.tensors = append(m.tensors, t)
		}
		g.at = append(g.at, i)
	}
}

// own picks a segment's parameters. The list is the member's to release.
func (m *member) own(g *segment) programs.List {
	list := make(programs.List, len(g.at))
	for i, at := range g.at {
		list[i] = m.parameters[at]
	}
	return list
}

// collect makes the gradient of a tensor that of the whole step: what every
// segment that uses the tensor has summed up.
func (m *member) collect(i int) (err error) {
	for _, st := range m.stages { // nil where another rank runs it
		if st == nil {
			continue
		}
		for _, g := range st.segments {
			for k, at := range g.at {
				if at != i || g.sum == nil || g.sum[k] == nil {
					continue
				}
				term := g.sum[k]
				g.sum[k] = nil
				if m.gradients[i] == nil {
					m.gradients[i] = term
					continue
				}
				m.gradients[i], err = m.arithmetic.Add(m.gradients[i], term)
				term.Release()
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// collectAll collects every gradient, and fails where one is missing.
func (m *member) collectAll() error {
	for i, t := range m.tensors {
		if err := m.collect(i); err != nil {
			return err
		}
		if m.gradients[i] == nil {
			return fmt.Errorf("there is no gradient of %s", t.Name)
		}
	}
	return nil
}

// scale multiplies every gradient by a number.
func (m *member) scale(factor float64) (err error) {
	if err := m.collectAll(); err != nil {
		return err
	}
	for i, t := range m.gradients {
		m.gradients[i] = nil
		if m.gradients[i], err = m.arithmetic.Scale(t, factor); err != nil {
			return err
		}
	}
	return nil
}

// update takes the optimizer's step.
func (m *member) update() error {
	if err := m.collectAll(); err != nil {
		return err
	}
	gradients := m.gradients
	m.gradients = make(programs.List, len(m.tensors))
	return m.updates.Step(m.parameters, gradients, &m.state)
}

// forget frees the gradients of a step that is over.
func (m *member) forget() {
	m.gradients.Release()
	m.gradients = make(programs.List, len(m.tensors))
	for _, st := range m.stages { // nil where another rank runs it
		if st == nil {
			continue
		}
		for _, g := range st.segments {
			g.sum.Release()
			g.sum = nil
		}
	}
}

// release frees what a member holds. Programs are the trainer's.
func (m *member) release() {
	m.forget()
	m.parameters.Release()
	m.state.Release()
}
