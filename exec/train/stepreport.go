package train

import (
	"context"
	"encoding/binary"
	"time"

	"psim/exec/cluster"
	"psim/exec/run"
	"psim/internal/ram"
	"psim/schedules/graph"
)

// A stepReport is sent by a process to the first one at the end of a step. It is about the
// sender's own ranks.
type stepReport struct {
	Trace     *run.PartTrace // nil for an evaluation
	Losses    []float64      // by replica and microbatch
	Calls     []int          // by rank
	Heap      int64
	Compiled  []ProgramMemory
	Gradients map[int]packedTensors // by rank
	Outputs   map[int]numbers       // by replica and microbatch
}

// numbers encodes each number in four bytes.
type numbers []float32

// GobEncode encodes the numbers.
func (n numbers) GobEncode() ([]byte, error) {
	return binary.Append(make([]byte, 0, 4*len(n)), binary.LittleEndian, []float32(n))
}

// GobDecode decodes the numbers.
func (n *numbers) GobDecode(data []byte) error {
	*n = make(numbers, len(data)/4)
	_, err := binary.Decode(data, binary.LittleEndian, []float32(*n))
	return err
}

// joinProcesses makes the step one that several processes run together, and waits until all of
// them begin it.
func (s *step) joinProcesses(ctx context.Context, o *run.Options) error {
	if o.World == nil {
		return nil
	}
	if t := s.Trainer; t.routes == nil {
		t.routes = run.NewRoutes(t.job.Graph, o.World.Owners(t.job.Graph.Ranks()), o.World.Rank)
		t.residual = make([]time.Duration, o.World.Size)
	}
	s.portion = &run.Portion{
		Routes: s.routes, World: o.World, Name: o.World.Next("step"), Pack: s.pack, Unpack: s.unpack,
	}
	o.Portion = s.portion
	if s.clock == (cluster.Clock{}) {
		var err error
		if s.clock, err = o.World.Clock(ctx, s.portion.Name+" clock before"); err != nil {
			return err
		}
	}
	return o.World.Barrier(ctx, s.portion.Name+" begins")
}

// gatherReports brings the reports of all processes about a step to the first one.
func (s *step) gatherReports(ctx context.Context, begin time.Time, trace *graph.Trace) error {
	if s.portion == nil {
		return nil
	}
	own := stepReport{Losses: s.losses, Calls: s.calls, Heap: ram.Heap(), Compiled: s.ownCompiled()}
	if trace != nil {
		before := s.clock
		if err := s.renewClock(ctx); err != nil {
			return err
		}
		own.Trace = &run.PartTrace{
			Begin: s.portion.World.Since(begin), Before: before, After: s.clock,
			Spans: trace.Spans, Memory: trace.Memory, Persistent: trace.Persistent,
		}
	}
	s.capture.addTo(&own)
	all, err := cluster.GatherValues(ctx, s.portion.World, s.portion.Name+" ends", own)
	if err != nil || s.portion.Self > 0 {
		return err
	}
	for k := 1; k < len(all); k++ {
		s.addReport(k, all[k])
		if trace != nil {
			s.portion.Merge(k, all[k].Trace, trace, s.portion.World.Since(begin))
		}
	}
	if trace != nil {
		s.portion.Straighten(trace)
	}
	return nil
}

// freshClock bounds how long a clock counts as just measured. Two clocks drift apart by less
// than a microsecond in 10 ms.
const freshClock = 200 * time.Millisecond

// renewClock measures the clocks of all processes again, if the first process finds them too
// old.
func (s *step) renewClock(ctx context.Context) error {
	w := s.portion.World
	stale := []byte{}
	if w.Since(time.Now())-s.clock.At > freshClock {
		stale = []byte{1}
	}
	stale, err := w.Broadcast(ctx, s.portion.Name+" clock", stale)
	if err == nil && len(stale) > 0 {
		s.Trainer.clock, err = w.Clock(ctx, s.portion.Name+" clock after")
	}
	return err
}

// addReport adds the report of another process.
func (s *step) addReport(k int, r stepReport) {
	for i, loss := range r.Losses {
		s.losses[i] += loss // one of the two is zero
	}
	for rank, n := range r.Calls {
		s.calls[rank] += n
	}
	s.heap += r.Heap
	s.compiled = append(s.compiled, r.Compiled...)
	s.capture.addReport(r)
	if r.Trace != nil {
		s.residual[k] = max(s.residual[k], r.Trace.After.Residual)
	}
}
