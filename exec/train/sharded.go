package train

import (
	"context"
	"fmt"
	"slices"

	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/kernels"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A shardUnit is a flat of a stage whose parameters are sharded over the replicas (fully
// sharded data parallelism).
type shardUnit struct {
	name   string
	layout kernels.Layout
}

// sharers counts the replicas among which units are divided.
func (j Job) sharers() int {
	if span := int(j.Graph.Sharing.Span); span > 0 {
		return span
	}
	return j.Graph.Shape.Replicas
}

// findUnits lists the units of all stages and, by the collective that gathers or scatters them,
// the units that every stage uses. Without sharded parameters it finds nothing.
func (p *taskPlan) findUnits(j Job) {
	if !j.Gathers() {
		return
	}
	known := map[string]*shardUnit{}
	for s := range j.Stages {
		for _, f := range j.Stages[s].Flats {
			u := &shardUnit{name: f.Name, layout: kernels.Layout{Tensors: f.Tensors, Chunks: j.sharers()}}
			known[f.Name] = u
			p.shardUnits = append(p.shardUnits, u)
		}
	}
	p.unitsOf = make([][][]*shardUnit, len(j.Stages))
	for s := range j.Stages {
		for _, flats := range j.GatheredFlats(s) {
			var units []*shardUnit
			for _, f := range flats {
				units = append(units, known[f.Name])
			}
			p.unitsOf[s] = append(p.unitsOf[s], units)
		}
	}
}

// extraBytes counts the bytes of a whole unit in excess of the chunks that come from other
// ranks. They are reserved from the beginning of a gather, which makes no tensor before it can
// end.
func (u *shardUnit) extraBytes() (bytes int64) {
	for _, t := range u.layout.Tensors {
		bytes += 4 * t.Shape.Elements()
	}
	return max(0, bytes-4*int64((u.layout.Chunks-1)*u.layout.Chunk()))
}

// shares lists the shards that a rank holds, one of every unit.
func (p *taskPlan) shares() []network.Tensor {
	var list []network.Tensor
	for _, u := range p.shardUnits {
		list = append(list, network.Tensor{Name: u.name, Shape: network.Dims{u.layout.Chunk()}})
	}
	return list
}

// wholeTensors lists the tensors of all units that a stage uses.
func (p *taskPlan) wholeTensors(stage int) (list []network.Tensor) {
	for _, units := range p.unitsOf[stage] {
		list = append(list, tensorsOf(units)...)
	}
	return list
}

func tensorsOf(units []*shardUnit) (list []network.Tensor) {
	for _, u := range units {
		list = append(list, u.layout.Tensors...)
	}
	return list
}

// A queue holds whole tensors between the task that makes them and the one that uses them up,
// by rank and stage: a list for each collective.
type queue map[[2]int32][]backend.Tensors

// push appends a list to a queue. Tasks of a stream are in order, so lists are taken in the
// order in which they were appended.
func (s *step) push(q queue, t graph.Task, whole backend.Tensors) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]int32{t.Rank, t.Stage}
	q[key] = append(q[key], whole)
}

// pop takes the next lists from a queue and joins them.
func (s *step) pop(q queue, t graph.Task, lists int) (backend.Tensors, error) {
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

// gather makes the parameters of a stage whole: the shards of all replicas travel around the
// ring.
func (s *step) gather(ctx context.Context, t graph.Task) error {
	m := s.ranks[t.Rank]
	at := slices.Index(s.job.Graph.Groups[t.Peer], t.Rank)
	var all backend.Tensors
	for _, u := range s.plan.unitsOf[t.Stage][t.Part] {
		chunks := make(backend.Tensors, u.layout.Chunks)
		chunks[at] = m.parameters[m.index[u.name]].Retain()
		taken := m.device.Reserve(u.extraBytes())
		chunks, err := s.exchange(ctx, contribution{s.key(t, u), collective.RingAllGather, t.Rank, chunks})
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

// scatter sums the whole gradients of a stage over the replicas of a group. Each replica adds its shard of
// the sum to what it has; if there are several groups, these sum shards first.
func (s *step) scatter(ctx context.Context, t graph.Task) error {
	m := s.ranks[t.Rank]
	at := slices.Index(s.job.Graph.Groups[t.Peer], t.Rank)
	gradients, err := s.pop(s.scattered, t, 1)
	if err != nil {
		return err
	}
	kind := collective.RingReduceScatter
	if t.Kind == graph.AllReduce {
		kind = collective.RingAllReduce // for libraries without a reduce-scatter
	}
	var shards backend.Tensors
	for _, u := range s.plan.unitsOf[t.Stage][t.Part] {
		own := len(u.layout.Tensors)
		m.keepWhole(u, gradients[:own])
		chunks, err := m.arithmetic.Flatten(u.layout, gradients[:own:own])
		gradients = gradients[own:]
		if err != nil {
			return err
		}
		if chunks, err = s.exchange(ctx, contribution{s.key(t, u), kind, t.Rank, chunks}); err != nil {
			return err
		}
		if s.job.Graph.Sharing.Span > 0 {
			shards = append(shards, chunks[at])
			chunks[at] = nil
		} else {
			err = m.addShard(u, chunks[at])
		}
		chunks.Release()
		if err != nil {
			return err
		}
	}
	if shards != nil {
		s.push(s.shards, t, shards)
	}
	return nil
}

// addShard adds a shard of a sum to what a rank has.
func (m *rankState) addShard(u *shardUnit, shard *backend.DeviceTensor) (err error) {
	sum := &m.gradients[m.index[u.name]]
	before := *sum
	*sum = nil
	*sum, err = m.arithmetic.Add(before, shard)
	return err
}

// sumShards sums the shards that a scatter has left over all groups.
func (s *step) sumShards(ctx context.Context, t graph.Task) error {
	m := s.ranks[t.Rank]
	shards, err := s.pop(s.shards, t, 1)
	if err != nil {
		return err
	}
	defer func() { shards.Release() }()
	for i, u := range s.plan.unitsOf[t.Stage][t.Part] {
		layout := kernels.Layout{
			Tensors: []network.Tensor{{Name: u.name, Shape: network.Dims{u.layout.Chunk()}}},
			Chunks:  len(s.job.Graph.Groups[t.Peer]),
		}
		shard := shards[i]
		shards[i] = nil
		chunks, err := m.arithmetic.Flatten(layout, backend.Tensors{shard})
		if err != nil {
			return err
		}
		chunks, err = s.exchange(ctx, contribution{s.key(t, u), collective.RingAllReduce, t.Rank, chunks})
		if err == nil {
			chunks, err = m.arithmetic.Unflatten(layout, chunks)
		}
		if err != nil {
			return err
		}
		err = m.addShard(u, chunks[0])
		chunks.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// queueGradients hands the whole gradients of a stage to the collectives that scatter them.
func (s *step) queueGradients(t graph.Task, gradients backend.Tensors) {
	for _, units := range s.plan.unitsOf[t.Stage] {
		n := len(tensorsOf(units))
		s.push(s.scattered, t, gradients[:n:n])
		gradients = gradients[n:]
	}
}

// key distinguishes the collectives of several units of one task.
func (s *step) key(t graph.Task, u *shardUnit) roundKey {
	return roundKey{group: t.Peer, stage: t.Stage, microbatch: t.Microbatch, kind: t.Kind, part: t.Part, tensor: u.name}
}

// resetShares gives every replica its shards of the first parameters, which the first device of
// this process makes.
func (t *Trainer) resetShares() error {
	members := t.ownRanks()
	first := members[0]
	for _, u := range t.plan.shardUnits {
		list, err := kernels.InitializeTensors(first.device, u.layout.Tensors, t.job.Seed)
		if err != nil {
			return err
		}
		chunks, err := first.arithmetic.Flatten(u.layout, list)
		if err != nil {
			return err
		}
		for r, m := range t.ranks {
			if m == nil {
				continue
			}
			share := chunks[r%u.layout.Chunks]
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
		if err := m.holdWhole(t.plan.shardUnits, t.job.Seed); err != nil {
			return err
		}
	}
	return nil
}

// holdWhole makes the tensors that a rank of the simplified form holds in addition to its shards:
// the whole model as it was at first, and whole gradients. Nothing reads them.
func (m *rankState) holdWhole(units []*shardUnit, seed uint64) (err error) {
	tensors := tensorsOf(units)
	if m.model, err = kernels.InitializeTensors(m.device, tensors, seed); err != nil {
		return err
	}
	m.kept = map[string]backend.Tensors{}
	for _, u := range units {
		if m.kept[u.name], err = kernels.Zeros(m.device, u.layout.Tensors); err != nil {
			return err
		}
	}
	return nil
}

// keepWhole replaces the whole gradients that a rank keeps of a unit, if it keeps any.
func (m *rankState) keepWhole(u *shardUnit, gradients backend.Tensors) {
	if m.kept != nil {
		m.kept[u.name].Release()
		m.kept[u.name] = gradients.Retain()
	}
}

// join joins the shards of the first group of replicas, by unit, to tensors by name.
func (p *taskPlan) join(shares []map[string][]float32) map[string][]float32 {
	all := map[string][]float32{}
	for _, u := range p.shardUnits {
		var flat []float32
		for _, of := range shares[:u.layout.Chunks] {
			flat = append(flat, of[u.name]...)
		}
		for _, t := range u.layout.Tensors {
			n := t.Shape.Elements()
			all[t.Name], flat = flat[:n:n], flat[n:]
		}
	}
	return all
}
