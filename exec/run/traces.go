package run

import (
	"cmp"
	"context"
	"slices"
	"time"

	"psim/exec/cluster"
	"psim/schedules/graph"
)

// A PartTrace is the part of a run's trace that one process measured, without the graph.
type PartTrace struct {
	Begin         time.Duration // by the clock of the process
	Before, After cluster.Clock // measured before and after the run
	Spans         []graph.Span
	Memory        []graph.MemoryEvent
	Persistent    []int64
}

// Merge adds the trace of process k to the trace of the first process, which began at a time by
// the first's clock.
func (x *Routes) Merge(k int, own *PartTrace, trace *graph.Trace, begin time.Duration) {
	at := func(t time.Duration) time.Duration {
		return cluster.Aligned(own.Before, own.After, own.Begin+t) - begin
	}
	for i, span := range own.Spans {
		if x.Owners[trace.Graph.Class(int32(i)).Rank] == k {
			trace.Spans[i].Start = at(span.Start)
		}
		if x.endsIn(int32(i)) == k {
			trace.Spans[i].End = at(span.End)
		}
	}
	for _, e := range own.Memory {
		e.At = at(e.At)
		trace.Memory = append(trace.Memory, e)
	}
	for rank, held := range own.Persistent {
		trace.Persistent[rank] += held
	}
}

// Straighten makes a trace that was merged from several clocks obey the rules: no task begins
// before all that it waits for has ended, and no message on a stream before the message ahead
// of it has arrived.
func (x *Routes) Straighten(trace *graph.Trace) {
	slices.SortStableFunc(trace.Memory, func(a, b graph.MemoryEvent) int { return cmp.Compare(a.At, b.At) })
	byStart := make([]int32, len(trace.Spans))
	for i := range byStart {
		byStart[i] = int32(i)
	}
	slices.SortStableFunc(byStart, func(a, b int32) int {
		return cmp.Compare(trace.Spans[a].Start, trace.Spans[b].Start)
	})
	ended := make([]time.Duration, len(x.graph.Streams))
	for _, i := range byStart {
		stream, span := x.graph.Class(i).Stream, &trace.Spans[i]
		ready := ended[stream]
		for _, d := range x.graph.Deps(i) {
			ready = max(ready, trace.Spans[d].End)
		}
		span.Start = max(span.Start, ready)
		span.End = max(span.End, span.Start)
		trace.Ready[i], ended[stream] = ready, span.End
	}
}

// InSteps performs tasks step by step in all processes, the tasks of a step at the same time.
// It returns the trace of all processes at the first one.
func (s *Portion) InSteps(ctx context.Context, steps [][]int32, do Do, o Options) (trace *graph.Trace, err error) {
	own := &PartTrace{}
	if own.Before, err = s.World.Clock(ctx, s.Name+" clock before"); err != nil {
		return &graph.Trace{}, err
	}
	o.Begin = time.Now()
	if trace, err = s.performSteps(ctx, steps, do, o); err != nil {
		return trace, err
	}
	if own.After, err = s.World.Clock(ctx, s.Name+" clock after"); err != nil {
		return trace, err
	}
	own.Begin, own.Spans = s.World.Since(o.Begin), trace.Spans
	all, err := cluster.GatherValues(ctx, s.World, s.Name+" spans", own)
	for k := 1; k < len(all); k++ {
		s.Merge(k, all[k], trace, own.Begin)
		s.Residual[k] = max(s.Residual[k], all[k].After.Residual)
	}
	return trace, err
}
