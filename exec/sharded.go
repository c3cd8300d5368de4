package exec

import (
	"context"
	"fmt"
	"slices"

	"psim/costmodel/arch"
	"psim/exec/programs"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A unit is a stage whose parameters are sharded over the replicas: its tensors
// laid end to end, of which every replica holds an equal part (fully sharded
// data parallelism).
type unit struct {
	name   string
	layout programs.Layout
}

// findUnits lists the units of every stage that the graph gathers: its own and
// those of the stages whose tensors it also uses. There are none unless
// parameters are sharded.
func (p *taskPlan) findUnits(j Job) {
	if !j.Gathers() {
		return
	}
	own := make([]*unit, len(j.Stages)) // by stage; nil where it has no parameters
	for s := range j.Stages {
		u := &unit{name: fmt.Sprint("unit ", s), layout: programs.Layout{Chunks: j.Graph.Shape.Replicas}}
		for _, l := range j.Stages[s].Layers {
			u.layout.Tensors = append(u.layout.Tensors, l.Params...)
		}
		if len(u.layout.Tensors) > 0 {
			own[s] = u
			p.own = append(p.own, u)
		}
	}
	p.units = make([][]*unit, len(j.Stages))
	for s := range j.Stages {
		for _, owner := range j.Stages[s].Units {
			if own[owner] != nil {
				p.units[s] = append(p.units[s], own[owner])
			}
		}
	}
}

// shares lists what a rank holds: a part of every unit.
func (p *taskPlan) shares() []arch.Tensor {
	var list []arch.Tensor
	for _, u := range p.own {
		list = append(list, arch.Tensor{Name: u.name, Shape: arch.Shape{u.layout.Chunk()}})
	}
	return list
}

func (p *taskPlan) wholeTensors(stage int) (list []arch.Tensor) {
	for _, u := range p.units[stage] {
		list = append(list, u.layout.Tensors...)
	}
	return list
}

// queue holds whole tensors between the task that makes them and the one that
// uses them up, by rank and stage.
type queue map[[2]int32][]programs.List

// push and pop take turns in order: tasks of a stream are in order.
func (s *step) push(q queue, t graph.Task, whole programs.List) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]int32{t.Rank, t.Stage}
	q[key] = append(q[key], whole)
}

func (s *step) pop(q queue, t graph.Task) (programs.List, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]int32{t.Rank, t.Stage}
	if len(q[key]) == 0 {
		return nil, fmt.Errorf("stage %d has not been gathered", t.Stage)
	}
	whole := q[key][0]
	q[key] = q[key][1:]
	return whole, nil
}

func (q queue) release() {
	for _, list := range q {
		for _, whole := range list {
			whole.Release()
		}
	}
}

// gather makes the parameters of a stage whole: the shares of all replicas
// travel around the ring.
func (s *step) gather(ctx context.Context, t graph.Task) error {
	m := s.members[t.Rank]
	at := slices.Index(s.job.Graph.Groups[t.Peer], t.Rank)
	var all programs.List
	for _, u := range s.plan.units[t.Stage] {
		chunks := make(programs.List, u.layout.Chunks)
		chunks[at] = m.parameters[m.index[u.name]].Retain()
		chunks, err := s.enter(ctx, s.key(t, u), collective.RingAllGather, t.Rank, chunks)
		if err == nil {
			chunks, err = m.arithmetic.Unflatten(u.layout, chunks)
		}
		if err != nil {
			all.Release()
			return err
		}
		all = append(all, chunks...)
	}
	s.push(s.gathered, t, all)
	return nil
}

// scatter sums the whole gradients of a stage over the replicas, of which each
// adds its share to what it has.
func (s *step) scatter(ctx context.Context, t graph.Task) error {
	m := s.members[t.Rank]
	at := slices.Index(s.job.Graph.Groups[t.Peer], t.Rank)
	gradients, err := s.pop(s.scattered, t)
	if err != nil {
		return err
	}
	kind := collective.RingReduceScatter
	if t.Kind == graph.AllReduce {
		kind = collective.RingAllReduce // for libraries that have no other
	}
	for _, u := range s.plan.units[t.Stage] {
		own := len(u.layout.Tensors)
		chunks, err := m.arithmetic.Flatten(u.layout, gradients[:own:own])
		gradients = gradients[own:]
		if err != nil {
			return err
		}
		if chunks, err = s.enter(ctx, s.key(t, u), kind, t.Rank, chunks); err != nil {
			return err
		}
		sum := &m.gradients[m.index[u.name]]
		before := *sum
		*sum = nil
		*sum, err = m.arithmetic.Add(before, chunks[at])
		chunks.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// key tells the collectives of several units of one task apart.
func (s *step) key(t graph.Task, u *unit) roundKey {
	return roundKey{group: t.Peer, stage: t.Stage, microbatch: t.Microbatch, kind: t.Kind, part: t.Part, tensor: u.name}
}

// resetShares gives every replica its shares of the first parameters, which the
// first device makes.
func (t *Trainer) resetShares() error {
	first := t.members[0]
	for _, u := range t.plan.own {
		list, err := programs.InitializeTensors(first.device, u.layout.Tensors, t.job.Seed)
		if err != nil {
			return err
		}
		chunks, err := first.arithmetic.Flatten(u.layout, list)
		if err != nil {
			return err
		}
		for r, m := range t.members {
			share := chunks[r]
			if r == 0 {
				share.Retain()
			} else if share, err = share.CopyTo(m.device); err != nil {
				chunks.Release()
				return err
			}
			m.parameters = append(m.parameters, share)
		}
		chunks.Release()
	}
	return nil
}

// join puts the shares of all replicas, by unit, together to tensors by name.
func (p *taskPlan) join(shares []map[string][]float32) map[string][]float32 {
	all := map[string][]float32{}
	for _, u := range p.own {
		var flat []float32
		for _, of := range shares {
			flat = append(flat, of[u.name]...)
		}
		for _, t := range u.layout.Tensors {
			n := t.Shape.Elements()
			all[t.Name], flat = flat[:n:n], flat[n:]
		}
	}
	return all
}
