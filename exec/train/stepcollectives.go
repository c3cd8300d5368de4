package train

import (
	"context"
	"fmt"
	"slices"

	"psim/exec/backend"
	"psim/exec/collectives"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A roundKey identifies a collective of a step. All its ranks have the same key.
type roundKey struct {
	group, stage, microbatch int32
	kind                     graph.Kind
	part                     uint16
	tensor                   string
}

// A round is one collective that has begun: what every rank has contributed, chunk by chunk,
// and later the result.
type round struct {
	chunks []backend.Tensors // by position in the group; nil for ranks of other processes
	here   int               // ranks of this process that have contributed
	name   string            // of its run, if several processes run it
	taken  int               // ranks that have taken their result
	done   chan struct{}     // closed when the ring has run
	err    error             // of the ring
}

func (r *round) release() {
	for _, list := range r.chunks {
		list.Release()
	}
}

// A contribution is what a rank brings to a collective.
type contribution struct {
	key        roundKey
	collective string // empty for a broadcast
	rank       int32
	chunks     backend.Tensors
}

// exchange contributes a rank's chunks to a collective. The last rank of this process runs its
// part of the ring while the others wait. All of them get their chunks back.
func (s *step) exchange(ctx context.Context, c contribution) (backend.Tensors, error) {
	key, ranks := c.key, s.job.Graph.Groups[c.key.group]
	here := len(ranks)
	if s.portion != nil {
		here = s.portion.LocalRanks[key.group]
	}
	at := slices.Index(ranks, c.rank)
	r, arrived := s.bringChunks(c, at, len(ranks))
	if arrived == here {
		if key.kind == graph.Broadcast {
			r.err = s.broadcastChain(ctx, ranks, r)
		} else {
			r.err = s.ring(ctx, c.collective, ranks, r)
		}
		close(r.done)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.taken++; r.taken == here {
		delete(s.rounds, key)
	}
	result := r.chunks[at]
	r.chunks[at] = nil
	return result, nil
}

// bringChunks adds chunks to the round of a collective, and returns how many ranks have
// contributed.
func (s *step) bringChunks(c contribution, at, ranks int) (r *round, arrived int) {
	key := c.key
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.rounds[key]; r == nil {
		r = &round{chunks: make([]backend.Tensors, ranks), done: make(chan struct{})}
		s.rounds[key] = r
		if s.portion != nil {
			r.name = fmt.Sprint(s.portion.Name, "/", key, " ", s.begun[key])
			s.begun[key]++
		}
	}
	r.chunks[at] = c.chunks
	r.here++
	return r, r.here
}

// ring runs a collective on the chunks of a group, in place.
func (s *step) ring(ctx context.Context, kind string, ranks []int32, r *round) error {
	c, err := collectives.NewMover(collective.Call{Collective: kind, Ranks: len(ranks), Length: int64(len(ranks))})
	if err != nil {
		return err
	}
	defer c.Release()
	c.Chunks, c.Into = r.chunks, r.chunks
	c.Devices, c.Arithmetic = make([]*backend.LocalDevice, len(ranks)), make([]*kernels.Arithmetic, len(ranks))
	var owners []int
	for at, rank := range ranks {
		if m := s.ranks[rank]; m != nil {
			c.Devices[at], c.Arithmetic[at] = m.device, m.arithmetic
		}
		if s.portion != nil {
			owners = append(owners, s.portion.Owners[rank])
		}
	}
	_, err = run.Graph(ctx, c.Graph, c.Do, c.Within(s.portion, r.name, owners))
	return err
}

// allReduce sums a bucket of gradients over the replicas, or the gradients of a tied tensor
// over the stages that use it.
func (s *step) allReduce(ctx context.Context, i int32) error {
	t := s.job.Graph.Task(i)
	m := s.ranks[t.Rank]
	names := s.plan.tied[i]
	if t.Stage != graph.None {
		names = s.job.Stages[t.Stage].Buckets[t.Part].Tensors
	}
	key := roundKey{group: t.Peer, stage: t.Stage, microbatch: t.Microbatch, kind: t.Kind, part: t.Part}
	if t.Stage == graph.None {
		key.tensor = names[0]
	}
	layout := kernels.Layout{Chunks: len(s.job.Graph.Groups[t.Peer])}
	var list backend.Tensors
	for _, name := range names {
		at, ok := m.index[name]
		if !ok {
			return fmt.Errorf("the rank has no tensor %s", name)
		}
		layout.Tensors = append(layout.Tensors, m.tensors[at])
		list = append(list, m.gradients[at])
		m.gradients[at] = nil
	}
	chunks, err := m.arithmetic.Flatten(layout, list)
	if err != nil {
		return err
	}
	if chunks, err = s.exchange(ctx, contribution{key, collective.RingAllReduce, t.Rank, chunks}); err != nil {
		return err
	}
	if list, err = m.arithmetic.Unflatten(layout, chunks); err != nil {
		return err
	}
	for k, name := range names {
		m.gradients[m.index[name]] = list[k]
	}
	return nil
}
