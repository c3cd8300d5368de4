package train

import (
	"context"
	"fmt"

	"psim/exec/backend"
	"psim/schedules/graph"
)

// broadcast replaces the parameters of a bucket on all replicas by those of the first replica.
func (s *step) broadcast(ctx context.Context, t graph.Task) error {
	m := s.ranks[t.Rank]
	names := s.job.Stages[t.Stage].Buckets[t.Part].Tensors
	list := make(backend.Tensors, len(names))
	for k, name := range names {
		at, ok := m.index[name]
		if !ok {
			list.Release()
			return fmt.Errorf("the rank has no tensor %s", name)
		}
		list[k], m.parameters[at] = m.parameters[at], nil
	}
	key := roundKey{group: t.Peer, stage: t.Stage, microbatch: t.Microbatch, kind: t.Kind, part: t.Part}
	list, err := s.exchange(ctx, contribution{key: key, rank: t.Rank, chunks: list})
	if err != nil {
		return err
	}
	for k, name := range names {
		m.parameters[m.index[name]] = list[k]
	}
	return nil
}

// broadcastChain copies the tensors of the first rank to the second, from there to the third,
// and so on.
func (s *step) broadcastChain(ctx context.Context, ranks []int32, r *round) (err error) {
	for at := 1; at < len(ranks); at++ {
		from, to := s.devices[ranks[at-1]], s.devices[ranks[at]]
		switch {
		case from != nil && to != nil:
			err = copyTensors(ctx, to, r.chunks[at-1], r.chunks[at])
		case from != nil:
			err = s.sendTensors(r, at, ranks[at])
		case to != nil:
			err = s.receiveTensors(ctx, r, at, ranks)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyTensors replaces tensors by copies of others.
func copyTensors(ctx context.Context, d *backend.LocalDevice, from, to backend.Tensors) (err error) {
	for k, x := range to {
		if err := ctx.Err(); err != nil {
			return err
		}
		x.Release()
		to[k] = nil
		if to[k], err = from[k].Send(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// sendTensors sends the tensors of the previous rank to the process of a rank.
func (s *step) sendTensors(r *round, at int, to int32) error {
	data, err := r.chunks[at-1].Pack()
	if err != nil {
		return err
	}
	return s.portion.World.Send(s.portion.Owners[to], fmt.Sprint(r.name, " ", at), data)
}

// receiveTensors receives the tensors of a rank from the process of the previous one.
func (s *step) receiveTensors(ctx context.Context, r *round, at int, ranks []int32) error {
	data, err := s.portion.World.Receive(ctx, s.portion.Owners[ranks[at-1]], fmt.Sprint(r.name, " ", at))
	if err != nil {
		return err
	}
	r.chunks[at].Release()
	r.chunks[at], err = backend.Unpack(s.devices[ranks[at]], data)
	return err
}
