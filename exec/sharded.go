package exec

import (
	"context"
	"fmt"
	"slices"

	"psim/costmodel/network"
	"psim/exec/programs"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A unit is a flat of a stage whose parameters are sharded over the replicas (fully
// sharded data parallelism).
type unit struct {
	name   string
	layout programs.Layout
}

// findUnits lists the units of all stages, and those that every stage uses, by the
// collective that gathers or scatters them. There are none unless parameters are
// sharded.
func (p *taskPlan) findUnits(j Job) {
	if !j.Gathers() {
		return
	}
	known := map[string]*unit{}
	for s := range j.Stages {
		for _, f := range j.Stages[s].Flats {
			u := &unit{name: f.Name, layout: programs.Layout{Tensors: f.Tensors, Chunks: j.Graph.Shape.Replicas}}
			known[f.Name] = u
			p.own = append(p.own, u)
		}
	}
	p.units = make([][][]*unit, len(j.Stages))
	for s := range j.Stages {
		for _, flats := range j.GatheredFlats(s) {
			var units []*unit
			for _, f := range flats {
				units = append(units, known[f.Name])
			}
			p.units[s] = append(p.units[s], units)
		}
	}
}

// beyond counts the bytes of a whole unit beyond the chunks that come from other ranks. They
// are held from the beginning of a gather, which makes no tensor before it can end.
func (u *unit) beyond() (bytes int64) {
	for _, t := range u.layout.Tensors {
		bytes += 4 * t.Shape.Elements()
	}
	return max(0, bytes-4*int64((u.layout.Chunks-1)*u.layout.Chunk()))
}

// shares lists what a rank holds: a part of every unit.
func (p *taskPlan) shares() []network.Tensor {
	var list []network.Tensor
	for _, u := range p.own {
		list = append(list, network.Tensor{Name: u.name, Shape: network.Dims{u.layout.Chunk()}})
	}
	return list
}

func (p *taskPlan) wholeTensors(stage int) (list []network.Tensor) {
	for _, units := range p.units[stage] {
		list = append(list, tensorsOf(units)...)
	}
	return list
}

func tensorsOf(units []*unit) (list []network.Tensor) {
	for _, u := range units {
		list = append(list, u.layout.Tensors...)
	}
	return list
}

// queue holds whole tensors between the task that makes them and the one that
// uses them up, by rank and stage: a list for each collective.
type queue map[[2]int32][]programs.List

// push and pop take turns in order: tasks of a stream are in order.
func (s *step) push(q queue, t graph.Task, whole programs.List) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]int32{t.Rank, t.Stage}
	q[key] = append(q[key], whole)
}

// pop joins the next lists, so many of them.
func (s *step) pop(q queue, t graph.Task, lists int) (programs.List, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]int32{t.Rank, t.Stage}
	if len(q[key]) < lists {
		return nil, fmt.Errorf("stage %d has not been gathered", t.Stage)
	}
	whole := slices.Concat(q[key][:lists]...)
	q[key] = q[key][lists:]
	return whole, nil
}

func (q queue) release() {
	for _, list := range q {
		for _, whole := range list {
			whole.Release()
		}
	}
}

// gather makes parameters of a stage whole: the shares of all replicas travel around
// the ring.
func (s *step) gather(ctx context.Context, t graph.Task) error {
	m := s.members[t.Rank]
	at := slices.Index(s.job.Graph.Groups[t.Peer], t.Rank)
	var all programs.List
	for _, u := range s.plan.units[t.Stage][t.Part] {
		chunks := make(programs.List, u.layout.Chunks)
		chunks[at] = m.parameters[m.index[u.name]].Retain()
		taken := m.device.Hold(u.beyond())
		chunks, err := s.enter(ctx, s.key(t, u), collective.RingAllGather, t.Rank, chunks)
		taken()
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

// scatter sums whole gradients of a stage over the replicas, of which each adds its
// share to what it has.
func (s *step) scatter(ctx context.Context, t graph.Task) error {
	m := s.members[t.Rank]
	at := slices.Index(s.job.Graph.Groups[t.Peer], t.Rank)
	gradients, err := s.pop(s.scattered, t, 1)
	if err != nil {
		return err
	}
	kind := collective.RingReduceScatter
	if t.Kind == graph.AllReduce {
		kind = collective.RingAllReduce // for libraries that have no other
	}
	for _, u := range s.plan.units[t.Stage][t.Part] {
		own := len(u.layout.Tensors)
		m.keep(u, gradients[:own])
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

// queueGradients hands the whole gradients of a stage to the collectives that scatter
// them.
func (s *step) queueGradients(t graph.Task, gradients programs.List) {
	for _, units := range s.plan.units[t.Stage] {
		n := len(tensorsOf(units))
		s.push(s.scattered, t, gradients[:n:n])
		gradients = gradients[n:]
	}
}

// key tells the collectives of several units of one task apart.
func (s *step) key(t graph.Task, u *unit) roundKey {
	return roundKey{group: t.Peer, stage: t.Stage, microbatch: t.Microbatch, kind: t.Kind, part: t.Part, tensor: u.name}
}

// resetShares gives every replica its shares of the first parameters, which the
// first device of this process makes.
func (t *Trainer) resetShares() error {
	members := t.own()
	first := members[0]
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
			if m == nil {
				continue
			}
			share := chunks[r]
			if m == first {
				share.Retain()
			} else if share, err = share.CopyTo(m.device); err != nil {
				chunks.Release()
				return err
			}
			m.parameters = append(m.parameters, share)
		}
		chunks.Release()
	}
	if !t.job.Simplified {
		return nil
	}
	for _, m := range members {
		if err := m.holdWhole(t.plan.own, t.job.Seed); err != nil {
			return err
		}
	}
	return nil
}

// holdWhole makes what a rank of the simplified form keeps beside its shares, and
// nothing reads: the whole model as it was at first, and whole gradients.
func (m *member) holdWhole(units []*unit, seed uint64) (err error) {
	tensors := tensorsOf(units)
	if m.model, err = programs.InitializeTensors(m.device, tensors, seed); err != nil {
		return err
	}
	m.kept = map[string]programs.List{}
	for _, u := range units {
		if m.kept[u.name], err = programs.Zeros(m.device, u.layout.Tensors); err != nil {
			return err
		}
	}
	return nil
}

// keep holds on to the whole gradients of a unit, in place of those before, where a
// rank keeps such.
func (m *member) keep(u *unit, gradients programs.List) {
	if m.kept != nil {
		m.kept[u.name].Release()
		m.kept[u.name] = gradients.Retain()
	}
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
