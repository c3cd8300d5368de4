package exec

import (
	"context"
	"fmt"
	"slices"

	"psim/exec/programs"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// roundKey tells the collectives of a step apart. All ranks of one have the
// same key.
type roundKey struct {
	group, stage, microbatch int32
	kind                     graph.Kind
	part                     uint16
	tensor                   string
}

// A round is one collective under way: what every rank has brought, chunk by
// chunk, and later the result.
type round struct {
	chunks []programs.List // by position in the group; of ranks of other processes none
	here   int             // ranks that have brought theirs
	name   string          // of its run, where processes run it together
	taken  int             // ranks that have taken them back
	done   chan struct{}   // closed when the ring has run
	err    error           // of the ring
}

func (r *round) release() {
	for _, list := range r.chunks {
		list.Release()
	}
}

// enter hands a rank's chunks to a collective. The last rank of this process runs its
// part of the ring, the others wait; all get their chunks back.
func (s *step) enter(ctx context.Context, key roundKey, kind string, rank int32, chunks programs.List) (programs.List, error) {
	ranks, here := s.job.Graph.Groups[key.group], len(s.job.Graph.Groups[key.group])
	if s.part != nil {
		here = s.part.own[key.group]
	}
	at := slices.Index(ranks, rank)
	r, arrived := s.bring(key, at, len(ranks), chunks)
	if arrived == here {
		if key.kind == graph.Broadcast {
			r.err = s.passOn(ctx, ranks, r)
		} else {
			r.err = s.ring(ctx, kind, ranks, r)
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

// bring adds chunks to the round of a collective, and counts how many ranks have.
func (s *step) bring(key roundKey, at, ranks int, chunks programs.List) (r *round, arrived int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.rounds[key]; r == nil {
		r = &round{chunks: make([]programs.List, ranks), done: make(chan struct{})}
		s.rounds[key] = r
		if s.part != nil {
			r.name = fmt.Sprint(s.part.name, "/", key, " ", s.begun[key])
			s.begun[key]++
		}
	}
	r.chunks[at] = chunks
	r.here++
	return r, r.here
}

// ring runs a collective on the chunks of a group, in place.
func (s *step) ring(ctx context.Context, kind string, ranks []int32, r *round) error {
	c, err := newCarrier(collective.Call{Collective: kind, Ranks: len(ranks), Length: int64(len(ranks))})
	if err != nil {
		return err
	}
	defer c.release()
	c.chunks, c.into = r.chunks, r.chunks
	c.devices, c.arithmetic = make([]*programs.Device, len(ranks)), make([]*programs.Arithmetic, len(ranks))
	var owners []int
	for at, rank := range ranks {
		if m := s.members[rank]; m != nil {
			c.devices[at], c.arithmetic[at] = m.device, m.arithmetic
		}
		if s.part != nil {
			owners = append(owners, s.part.owners[rank])
		}
	}
	_, err = Run(ctx, c.graph, c.do, c.within(s.part, r.name, owners))
	return err
}

// allReduce sums a bucket of gradients over the replicas, or those of a tied
// tensor over the stages that use it.
func (s *step) allReduce(ctx context.Context, i int32) error {
	t := s.job.Graph.Task(i)
	m := s.members[t.Rank]
	names := s.plan.tied[i]
	if t.Stage != graph.None {
		names = s.job.Stages[t.Stage].Buckets[t.Part].Tensors
	}
	key := roundKey{group: t.Peer, stage: t.Stage, microbatch: t.Microbatch, kind: t.Kind, part: t.Part}
	if t.Stage == graph.None {
		key.tensor = names[0]
	}
	layout := programs.Layout{Chunks: len(s.job.Graph.Groups[t.Peer])}
	var list programs.List
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
	if chunks, err = s.enter(ctx, key, collective.RingAllReduce, t.Rank, chunks); err != nil {
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
