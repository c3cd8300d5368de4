package exec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"slices"
	"time"

	"psim/exec/processes"
	"psim/schedules/graph"
)

// A report is what a process tells the first of a step: what it knows of its own
// ranks, and nothing of others.
type report struct {
	Trace     *ownTrace // nil of an evaluation
	Losses    []float64 // by replica and microbatch
	Calls     []int     // by rank
	Heap      int64
	Gradients map[int]packedTensors // by rank
	Outputs   map[int]numbers       // by replica and microbatch
}

// An ownTrace is a trace without its graph.
type ownTrace struct {
	Begin         time.Duration   // by the process's clock
	Before, After processes.Clock // measured around it
	Spans         []graph.Span
	Memory        []graph.MemoryEvent
	Persistent    []int64
}

// A numbers encodes each in four bytes.
type numbers []float32

// GobEncode writes the numbers.
func (n numbers) GobEncode() ([]byte, error) {
	return binary.Append(make([]byte, 0, 4*len(n)), binary.LittleEndian, []float32(n))
}

// GobDecode reads them.
func (n *numbers) GobDecode(data []byte) error {
	*n = make(numbers, len(data)/4)
	_, err := binary.Decode(data, binary.LittleEndian, []float32(*n))
	return err
}

func encode(what any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(what)
	return b.Bytes(), err
}

func decode(data []byte, into any) error { return gob.NewDecoder(bytes.NewReader(data)).Decode(into) }

// join makes a step one that several processes run together, and waits until all of them
// begin it.
func (s *step) join(ctx context.Context, o *RunOptions) error {
	if o.World == nil {
		return nil
	}
	if t := s.Trainer; t.routes == nil {
		t.routes = newRoutes(t.job.Graph, o.World.Owners(t.job.Graph.Ranks()), o.World.Rank)
		t.residual = make([]time.Duration, o.World.Size)
	}
	s.part = &share{routes: s.routes, world: o.World, name: o.World.Next("step"), word: s.pack, take: s.unpack}
	o.part = s.part
	if s.clock == (processes.Clock{}) {
		var err error
		if s.clock, err = o.World.Clock(ctx, s.part.name+" clock before"); err != nil {
			return err
		}
	}
	return o.World.Barrier(ctx, s.part.name+" begins")
}

// conclude brings what all processes know of a step to the first.
func (s *step) conclude(ctx context.Context, begin time.Time, trace *graph.Trace) error {
	if s.part == nil {
		return nil
	}
	own := report{Losses: s.losses, Calls: s.calls, Heap: heapBytes()}
	if trace != nil {
		before := s.clock
		if err := s.renewClock(ctx); err != nil {
			return err
		}
		own.Trace = &ownTrace{s.part.world.Since(begin), before, s.clock, trace.Spans, trace.Memory, trace.Persistent}
	}
	s.keep.report(&own)
	var data []byte
	var err error
	if s.part.me > 0 {
		if data, err = encode(own); err != nil {
			return fmt.Errorf("telling the first process of a step: %w", err)
		}
	}
	all, err := s.part.world.Gather(ctx, s.part.name+" ends", data)
	if err != nil || s.part.me > 0 {
		return err
	}
	for k := 1; k < len(all); k++ {
		var r report
		if err := decode(all[k], &r); err != nil {
			return fmt.Errorf("process %d tells of a step: %w", k, err)
		}
		s.learn(k, r)
		if trace != nil {
			s.part.merge(k, r.Trace, trace, s.part.world.Since(begin))
		}
	}
	if trace != nil {
		s.part.straighten(trace)
	}
	return nil
}

// freshClock bounds how long a clock counts as measured just now: two drift apart by less than
// a microsecond for every 10 ms.
const freshClock = 200 * time.Millisecond

// renewClock measures the clocks of all processes again, if the first finds that it is
// time.
func (s *step) renewClock(ctx context.Context) error {
	w := s.part.world
	stale := []byte{}
	if w.Since(time.Now())-s.clock.At > freshClock {
		stale = []byte{1}
	}
	stale, err := w.Broadcast(ctx, s.part.name+" clock", stale)
	if err == nil && len(stale) > 0 {
		s.Trainer.clock, err = w.Clock(ctx, s.part.name+" clock after")
	}
	return err
}

// learn adds what another process knows.
func (s *step) learn(k int, r report) {
	for i, loss := range r.Losses {
		s.losses[i] += loss // of two, one is zero
	}
	for rank, n := range r.Calls {
		s.calls[rank] += n
	}
	s.heap += r.Heap
	s.keep.learn(r)
	if r.Trace != nil {
		s.residual[k] = max(s.residual[k], r.Trace.After.Residual)
	}
}

// merge adds another process's trace to one that began at a time by the first's clock.
func (x *routes) merge(k int, own *ownTrace, trace *graph.Trace, begin time.Duration) {
	at := func(t time.Duration) time.Duration {
		return processes.Aligned(own.Before, own.After, own.Begin+t) - begin
	}
	for i, span := range own.Spans {
		if x.owners[trace.Graph.Class(int32(i)).Rank] == k {
			trace.Spans[i].Start = at(span.Start)
		}
		if x.ends(int32(i)) == k {
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

// members lists the processes of a run, whose clocks may have been wrong by so much; none
// where it has not begun, or one process is alone.
func members(w *processes.World, residual []time.Duration) (list []Member) {
	for k, by := range residual {
		list = append(list, Member{w.Processes()[k], by})
	}
	return list
}

// straighten makes a trace of several clocks obey the rules: nothing begins before what
// it waits for has ended, a message on its stream not before the one before has come.
func (x *routes) straighten(trace *graph.Trace) {
	slices.SortStableFunc(trace.Memory, func(a, b graph.MemoryEvent) int { return cmp.Compare(a.At, b.At) })
	byStart := make([]int32, len(trace.Spans))
	for i := range byStart {
		byStart[i] = int32(i)
	}
	slices.SortStableFunc(byStart, func(a, b int32) int { return cmp.Compare(trace.Spans[a].Start, trace.Spans[b].Start) })
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
