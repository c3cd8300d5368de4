package exec

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"psim/schedules/graph"
)

// of returns the options of a run of a carrier, whose ranks are those of the World.
func (o RunOptions) of(c *carrier) RunOptions {
	if o.World != nil {
		o.part = &share{
			routes: newRoutes(c.graph, o.World.Owners(c.graph.Ranks()), o.World.Rank), world: o.World,
			name: o.World.Next(c.graph.Name), word: c.pack, take: c.unpack, residual: make([]time.Duration, o.World.Size),
		}
	}
	return o
}

// timed does something in all processes at once, and returns how long that took: at the
// first what it took in the slowest.
func (o RunOptions) timed(ctx context.Context, what func() error) (time.Duration, error) {
	if o.World != nil {
		if err := o.World.Barrier(ctx, o.World.Next("timed")); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	if err := what(); err != nil {
		return 0, err
	}
	all, err := o.collect(ctx, int64(time.Since(start)))
	return time.Duration(slices.Max(all)), err
}

// collect returns a number of every process, at the first; elsewhere this one's.
func (o RunOptions) collect(ctx context.Context, own int64) ([]int64, error) {
	list := []int64{own}
	if o.World == nil {
		return list, nil
	}
	all, err := o.World.Gather(ctx, o.World.Next("number"), binary.AppendVarint(nil, own))
	for k := 1; k < len(all) && err == nil; k++ {
		n, read := binary.Varint(all[k])
		if list = append(list, n); read <= 0 {
			err = errors.New("a process has told no number")
		}
	}
	return list, err
}

// apart performs the tasks of a carrier of several processes in steps, and returns beside the
// trace what messages between processes take that carry nothing.
func (c *carrier) apart(ctx context.Context, steps [][]int32, o RunOptions) (*graph.Trace, []time.Duration, error) {
	empty := make([]time.Duration, c.graph.Len())
	nothing := o
	part := *o.part
	part.name, part.word, part.take = o.World.Next(c.graph.Name), nil, nil
	nothing.part = &part
	without, err := part.inSteps(ctx, steps, func(context.Context, int32) error { return nil }, nothing)
	if err != nil {
		return without, empty, err
	}
	for i := range empty {
		if t := c.graph.Class(int32(i)); t.Kind.Message() && part.owners[t.Rank] != part.owners[t.Peer] {
			empty[i] = without.Spans[i].Duration()
		}
	}
	trace, err := o.part.inSteps(ctx, steps, c.do, o)
	return trace, empty, err
}

// inSteps performs the tasks of all processes in steps, and returns the trace of all at the
// first.
func (s *share) inSteps(ctx context.Context, steps [][]int32, do Do, o RunOptions) (trace *graph.Trace, err error) {
	own := &ownTrace{}
	if own.Before, err = s.world.Clock(ctx, s.name+" clock before"); err != nil {
		return &graph.Trace{}, err
	}
	o.Begin = time.Now()
	if trace, err = inSteps(ctx, s.graph, steps, do, o); err != nil {
		return trace, err
	}
	if own.After, err = s.world.Clock(ctx, s.name+" clock after"); err != nil {
		return trace, err
	}
	own.Begin, own.Spans = s.world.Since(o.Begin), trace.Spans
	data, err := encode(own)
	if err != nil {
		return trace, err
	}
	all, err := s.world.Gather(ctx, s.name+" spans", data)
	for k := 1; k < len(all) && err == nil; k++ {
		var theirs ownTrace
		if err = decode(all[k], &theirs); err == nil {
			s.merge(k, &theirs, trace, own.Begin)
			s.residual[k] = max(s.residual[k], theirs.After.Residual)
		}
	}
	return trace, err
}
