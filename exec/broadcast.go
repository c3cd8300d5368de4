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
func (s *step) passOn(ctx context.Context, ranks []int32, lists []programs.List) (err error) {
	for at := 1; at < len(lists); at++ {
		for k, x := range lists[at] {
			if err := ctx.Err(); err != nil {
				return err
			}
			x.Release()
			lists[at][k] = nil
			if lists[at][k], err = copyWhole(ctx, lists[at-1][k], s.devices[ranks[at]]); err != nil {
				return err
			}
		}
	}
	return nil
}
