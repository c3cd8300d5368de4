package exec

import (
	"context"
	"fmt"

	"psim/exec/programs"
	"psim/schedules/graph"
)

// broadcast brings the first replica's parameters of a bucket to the other replicas, in
// the place of theirs.
func (s *step) broadcast(ctx context.Context, t graph.Task) error {
	m := s.members[t.Rank]
	names := s.job.Stages[t.Stage].Buckets[t.Part].Tensors
	list := make(programs.List, len(names))
	for k, name := range names {
		at, ok := m.index[name]
		if !ok {
			list.Release()
			return fmt.Errorf("the rank has no tensor %s", name)
		}
		list[k], m.parameters[at] = m.parameters[at], nil
	}
	list, err := s.enter(ctx, roundKey{group: t.Peer, stage: t.Stage, microbatch: t.Microbatch, kind: t.Kind, part: t.Part}, "", t.Rank, list)
	if err != nil {
		return err
	}
	for k, name := range names {
		m.parameters[m.index[name]] = list[k]
	}
	return nil
}

// passOn copies the first rank's tensors from each rank to the next.
func (s *step) passOn(ctx context.Context, ranks []int32, r *round) (err error) {
	for at := 1; at < len(ranks); at++ {
		from, to := ranks[at-1], ranks[at]
		switch {
		case s.devices[from] != nil && s.devices[to] != nil:
			err = s.passTo(ctx, s.devices[to], r.chunks[at-1], r.chunks[at])
		case s.devices[from] != nil:
			err = s.passOut(r, at, to)
		case s.devices[to] != nil:
			err = s.passIn(ctx, r, at, from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *step) passTo(ctx context.Context, d *programs.Device, from, to programs.List) (err error) {
	for k, x := range to {
		if err := ctx.Err(); err != nil {
			return err
		}
		x.Release()
		to[k] = nil
		if to[k], err = copyWhole(ctx, from[k], d); err != nil {
			return err
		}
	}
	return nil
}

// passOut sends the tensors of the rank before to the process of a rank, which passes
// them in.
func (s *step) passOut(r *round, at int, to int32) error {
	data, err := r.chunks[at-1].Pack()
	if err != nil {
		return err
	}
	return s.part.world.Send(s.part.owners[to], fmt.Sprint(r.name, " ", at), data)
}

func (s *step) passIn(ctx context.Context, r *round, at int, from, to int32) error {
	data, err := s.part.world.Receive(ctx, s.part.owners[from], fmt.Sprint(r.name, " ", at))
	if err != nil {
		return err
	}
	r.chunks[at].Release()
	r.chunks[at], err = programs.Unpack(s.devices[to], data)
	return err
}
