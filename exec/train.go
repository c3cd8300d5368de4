package exec

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"psim/exec/processes"
	"psim/exec/programs"
	"psim/internal/ram"
	"psim/schedules/graph"
)

// TrainOptions say how long to train and what to keep.
type TrainOptions struct {
	RunOptions
	// Warmup steps are trained but not measured.
	Warmup, Steps int
	// Epochs, if there are any, take the place of Steps: passes over the data set, and
	// Warmup counts passes too.
	Epochs int
	// Record keeps what is needed to compare with the unsplit run: the
	// gradients of the first step, and the outputs of one more step after the
	// measured ones. Without it, losses alone are recorded.
	Record bool
	// Gradients keeps those of the first step by rank.
	Gradients bool
	// Progress is called before every step, if it is set.
	Progress func(step, of int)
}

// Total is the number of steps that Train takes, warm-up and recording
// included: a Source must have batches for as many.
func (o TrainOptions) Total() int {
	n := o.Warmup + o.Steps
	if o.Record {
		n++
	}
	return n
}

// mostSteps bounds the steps of epochs: all their traces are kept.
const mostSteps = 100_000

// inSteps returns the options with epochs of a number of steps as steps.
func (o TrainOptions) inSteps(epoch int) (TrainOptions, error) {
	if o.Epochs == 0 {
		return o, nil
	}
	if o.Epochs+o.Warmup > mostSteps/epoch {
		return o, fmt.Errorf("%d epochs of %d steps: at most %d steps can be kept; train fewer epochs, or on fewer samples", o.Epochs+o.Warmup, epoch, mostSteps)
	}
	o.Steps, o.Warmup = o.Epochs*epoch, o.Warmup*epoch
	return o, nil
}

// evaluates reports whether the samples that are held out are evaluated after a step:
// the last of an epoch, or of those that are measured.
func (o TrainOptions) evaluates(n int) bool {
	each := o.Warmup + o.Steps
	if o.Epochs > 0 {
		each = o.Steps / o.Epochs
	}
	return n < o.Warmup+o.Steps && (n+1)%each == 0
}

// Training is what a run leaves.
type Training struct {
	Traces []*graph.Trace // of the measured steps
	Record *Record
	// GradientCalls is how many programs that make gradients a step ran, by rank: as
	// often would PyTorch's autograd be called.
	GradientCalls []int
	// Gradients are those of the first step, by rank, if they were asked for.
	Gradients []Gradients
	// Heap is the most bytes that the process's own heap held at the end of a
	// measured step, garbage included.
	Heap int64
}

// Train trains a number of steps on the batches of a source. When ctx ends
// early, or a step fails, it returns what was measured so far with the error.
func (t *Trainer) Train(ctx context.Context, source *Source, o TrainOptions) (*Training, error) {
	result := &Training{Record: &Record{}}
	resume := holdGarbage()
	defer resume()
	for n := range o.Total() {
		if o.Progress != nil {
			o.Progress(n, o.Total())
		}
		keep := t.keepAt(n, o)
		runtime.GC()
		trace, loss, err := t.stepWith(ctx, Run, source.Batch(n), o.RunOptions, keep)
		if err == nil && n == o.Total()-1 {
			err = t.checkParameters()
		}
		if err != nil {
			return result, t.explain(ctx, source.Batch, NumberError{Step: n, Steps: o.Total(), Seen: err}, o.RunOptions)
		}
		result.GradientCalls = t.calls
		result.Record.Losses = append(result.Record.Losses, loss)
		if keep != nil && !o.follows() {
			t.take(result, keep, o)
		}
		if n >= o.Warmup && n < o.Warmup+o.Steps {
			result.Traces = append(result.Traces, trace)
			result.Heap = max(result.Heap, heapBytes()+t.heap)
		}
		if source.held > 0 && o.evaluates(n) {
			loss, err := t.Evaluate(ctx, source, o.RunOptions)
			if err != nil {
				return result, fmt.Errorf("validation: %w", err)
			}
			result.Record.Validation = append(result.Record.Validation, loss)
		}
	}
	if !o.Record {
		return result, nil
	}
	return result, t.recordParameters(ctx, result.Record, o.World)
}

func (t *Trainer) keepAt(n int, o TrainOptions) *capture {
	first, last := n == 0 && (o.Record || o.Gradients), n == o.Total()-1 && o.Record
	if !first && !last {
		return nil
	}
	c := &capture{}
	if first {
		c.gradients = make([]Gradients, t.job.Graph.Ranks())
	}
	if last {
		c.outputs = make([][]float32, t.job.Graph.Shape.Replicas*len(t.job.Samples))
	}
	return c
}

// take adds what a step has left to what the run leaves.
func (t *Trainer) take(result *Training, c *capture, o TrainOptions) {
	if c.gradients != nil && o.Gradients {
		result.Gradients = c.gradients
	}
	if c.gradients != nil && o.Record {
		held := make([]map[string][]float32, len(c.gradients))
		for rank := range held {
			held[rank] = c.gradients[rank].Values
		}
		result.Record.Gradients = t.byReplica(held)
	}
	for _, outputs := range c.outputs {
		result.Record.Outputs = append(result.Record.Outputs, outputs...)
	}
}

func (t *Trainer) recordParameters(ctx context.Context, r *Record, w *processes.World) error {
	held, err := t.held()
	if err == nil && w != nil {
		held, err = gatherHeld(ctx, held, w)
	}
	if err != nil || w != nil && w.Rank > 0 {
		return err
	}
	r.Parameters = t.byReplica(held)
	return nil
}

// gatherHeld brings what the ranks of all processes hold to the first.
func gatherHeld(ctx context.Context, held []map[string][]float32, w *processes.World) ([]map[string][]float32, error) {
	own := make([]map[string]numbers, len(held))
	for rank, values := range held {
		own[rank] = packed(values)
	}
	data, err := encode(own)
	if err != nil {
		return nil, err
	}
	all, err := w.Gather(ctx, w.Next("parameters"), data)
	for k := 1; k < len(all) && err == nil; k++ {
		var theirs []map[string]numbers
		err = decode(all[k], &theirs)
		for rank, values := range theirs {
			maps.Copy(held[rank], unpacked(values))
		}
	}
	return held, err
}

// garbage limits the bytes that may gather before they are collected in the middle
// of a step.
const garbage = 4 << 30

// heapShare limits the heap to a share of the free memory, from which on garbage is
// collected at any time. The rest is for the program, its stacks and what others do.
const heapShare = 0.9

// limitHeap keeps garbage from filling the memory of this machine or its container. It
// returns how to undo that.
func limitHeap() (undo func()) {
	limit := debug.SetMemoryLimit(heapBytes() + int64(heapShare*float64(ram.Free())))
	return func() { debug.SetMemoryLimit(limit) }
}

// holdGarbage keeps the collector out of the measured time: steps are run
// between collections, as far as memory allows. It returns how to undo that.
func holdGarbage() (resume func()) {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, heapBytes()+garbage))
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// Heap is the bytes in use on the process's own heap, after a collection.
func Heap() int64 {
	runtime.GC()
	return heapBytes()
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Launched is when the last forward or backward of every rank was begun, which
// is where a clock stops that does not wait for the device.
func Launched(trace *graph.Trace) []time.Duration {
	at := make([]time.Duration, trace.Graph.Ranks())
	for i := range int32(trace.Graph.Len()) {
		if task := trace.Graph.Class(i); task.Kind.Compute() {
			at[task.Rank] = max(at[task.Rank], trace.Spans[i].Start)
		}
	}
	return at
}

// A ledger records when the tensors of devices come and go.
type ledger struct {
	devices []*programs.Device
	begin   time.Time
	held    []int64 // by rank, when it began

	mu     sync.Mutex
	events []graph.MemoryEvent
}

func watchLedger(devices []*programs.Device, begin time.Time) *ledger {
	l := &ledger{devices: devices, begin: begin}
	for rank, d := range devices {
		if d == nil {
			l.held = append(l.held, 0) // of another process
			continue
		}
		l.held = append(l.held, d.Bytes())
		d.Observe(func(change int64) {
			l.mu.Lock()
			l.events = append(l.events, graph.MemoryEvent{At: time.Since(begin), Bytes: change, Rank: int32(rank), Task: graph.None})
			l.mu.Unlock()
		})
	}
	return l
}

// end stops recording and returns the changes, by time, and what was held
// before them.
func (l *ledger) end() (events []graph.MemoryEvent, persistent []int64) {
	for _, d := range l.devices {
		if d != nil {
			d.Observe(nil)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.events, func(a, b graph.MemoryEvent) int { return cmp.Compare(a.At, b.At) })
	return l.events, l.held
}
