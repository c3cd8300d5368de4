package collectives

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"psim/exec/backend"
	"psim/exec/run"
	"psim/internal/ram"
	"psim/internal/units"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A Benchmark runs a collective by itself on devices, on float32 tensors whose sums are exact.
type Benchmark struct {
	Call    collective.Call // Length is in numbers
	Warmup  int             // runs before the measured ones
	Repeats int             // measured runs, and more if they are short
	// Stage, if set, is called when another part of the work begins.
	Stage func(what string)
	run.Options
}

func (b Benchmark) say(format string, args ...any) {
	if b.Stage != nil {
		b.Stage(fmt.Sprintf(format, args...))
	}
}

// A BenchmarkResult holds the measurements of a collective.
type BenchmarkResult struct {
	Graph *graph.Graph
	Time  time.Duration // the median of the runs
	// Alone is how long every task takes. In one process it is measured together with the tasks
	// of the same step on other cores, and over several processes one by one. Messages between
	// processes count only for the time by which they take longer than empty ones. Empty
	// messages, and the goroutines that wake each other, are part of Empty: the time of a run
	// whose tasks only wait for Passed (nil means zero).
	Alone, Passed []time.Duration
	Empty         time.Duration
	Cores         int // how many tasks can run at once; 0 is any number
	Wrong         int // wrong numbers, over all ranks
	// Processes are those that ran it together; nil for this one alone.
	Processes []run.Participant
}

// NumberBytes is the size of a number of a collective's tensors.
const NumberBytes = 4

// A collective is repeated beyond its repeats until all runs together have moved enough bytes,
// but at most mostRepeats times. All processes repeat it equally often.
const (
	mostRepeats = 50
	enoughBytes = 128 << 20
)

// runCount returns how many runs are measured.
func (b Benchmark) runCount() int {
	return max(b.Repeats, min(mostRepeats, enoughBytes/int(max(1, b.Call.Length*NumberBytes))))
}

// Measure runs the collective, checks every number, and times every task. Several processes all
// call it, with the devices of their own ranks; only the first knows the whole result.
func (b Benchmark) Measure(ctx context.Context, devices []*backend.LocalDevice) (result BenchmarkResult, err error) {
	defer func() { err = run.Failed(err) }()
	b.Call.Element = NumberBytes
	if result.Graph, err = b.Call.Graph(); err != nil {
		return result, err
	}
	ranks, closeAll := newRanks(devices)
	defer closeAll()
	defer ram.HoldGarbage()()
	err = b.measureRuns(ctx, ranks, &result)
	return result, err
}

// measureRuns measures the runs alternately with their tasks, so that both see the machine in
// the same state.
func (b Benchmark) measureRuns(ctx context.Context, ranks Ranks, result *BenchmarkResult) error {
	var times []time.Duration
	parts := taskTimes{benchmark: b, ranks: ranks}
	for n := range b.Warmup + b.runCount() {
		b.say("run %d of %d", n+1, b.Warmup+b.runCount())
		if n >= b.Warmup {
			if err := parts.measure(ctx, result); err != nil {
				return err
			}
		}
		runtime.GC()
		wrong, took, err := b.runOnce(ctx, ranks, func(ctx context.Context, c *Mover, o run.Options) error {
			_, err := run.Graph(ctx, c.Graph, c.Do, o)
			return err
		})
		if err != nil {
			return err
		}
		if result.Wrong += wrong; n >= b.Warmup {
			times = append(times, took)
		}
	}
	result.Time = units.Median(times)
	return nil
}

// A performFunc performs the tasks of a mover.
type performFunc func(context.Context, *Mover, run.Options) error

// runOnce makes tensors, performs the collective on them, and counts the wrong numbers.
func (b Benchmark) runOnce(
	ctx context.Context, ranks Ranks, perform performFunc,
) (wrong int, took time.Duration, err error) {
	c, err := NewMover(b.Call)
	if err != nil {
		return 0, 0, err
	}
	c.Ranks = ranks
	defer c.Release()
	free := func(lists []backend.Tensors) {
		for _, list := range lists {
			list.Release()
		}
	}
	row, err := collective.Find(b.Call.Collective)
	if err != nil {
		return 0, 0, err
	}
	if c.Chunks, err = b.upload(row, ranks.Devices); err != nil {
		return 0, 0, err
	}
	defer func() { free(c.Chunks) }()
	c.Into = c.Chunks
	if row.Result == graph.AllToAll {
		if c.Into, err = b.upload(row, ranks.Devices); err != nil {
			return 0, 0, err
		}
		defer func() { free(c.Into) }()
	}
	o := c.options(b.Options)
	if took, err = b.Timed(ctx, func() error { return perform(ctx, c, o) }); err != nil {
		return 0, 0, err
	}
	if wrong, err = b.countWrong(row, c.Into); err != nil {
		return 0, 0, err
	}
	counts, err := b.Collect(ctx, int64(wrong))
	for _, n := range counts[1:] {
		wrong += int(n)
	}
	return wrong, took, err
}

// firstNumber returns the first value of a rank at an index. The values are small, so that sums
// are exact, and neighbours differ.
func firstNumber(rank int, at int64) float32 { return float32((at*7 + int64(rank)*31) % 1021) }

// upload makes every rank's tensor, in chunks.
func (b Benchmark) upload(row collective.Collective, devices []*backend.LocalDevice) ([]backend.Tensors, error) {
	all := make([]backend.Tensors, len(devices))
	for rank, d := range devices {
		if d == nil {
			continue
		}
		var at int64
		for _, n := range collective.RingChunks(b.Call.Length, row.Chunks(b.Call.Ranks)) {
			values := make([]float32, n)
			for k := range values {
				values[k] = firstNumber(rank, at+int64(k))
			}
			at += n
			var chunk *backend.DeviceTensor
			if n > 0 {
				var err error
				if chunk, err = backend.Upload(d, values, int(n)); err != nil {
					return all, err
				}
			}
			all[rank] = append(all[rank], chunk)
		}
	}
	return all, nil
}

// countWrong counts the numbers that differ from the correct result of the collective.
func (b Benchmark) countWrong(row collective.Collective, into []backend.Tensors) (count int, err error) {
	for rank, list := range into {
		if list == nil {
			continue // of another process
		}
		var at int64
		for chunk, n := range collective.RingChunks(b.Call.Length, row.Chunks(b.Call.Ranks)) {
			want := b.expected(row.Result, rank, chunk, at)
			if list[chunk] != nil && want != nil {
				values, err := backend.Read[float32](list[chunk])
				if err != nil {
					return count, err
				}
				for k, v := range values {
					if v != want(at+int64(k)) {
						count++
					}
				}
			}
			at += n
		}
	}
	return count, nil
}

// expected returns the number that a rank should have at every index of a chunk that begins at
// an index; nil if any number is right.
func (b Benchmark) expected(kind graph.Kind, rank, chunk int, begins int64) func(at int64) float32 {
	sum := func(at int64) (sum float32) {
		for other := range b.Call.Ranks {
			sum += firstNumber(other, at)
		}
		return sum
	}
	owner := collective.Conventions()[0].Owner(chunk, b.Call.Ranks)
	switch {
	case kind == graph.ReduceScatter && owner != rank:
		return nil
	case kind == graph.AllGather:
		return func(at int64) float32 { return firstNumber(owner, at) }
	case kind == graph.AllToAll:
		var own int64
		for _, n := range collective.RingChunks(b.Call.Length, b.Call.Ranks)[:rank] {
			own += n
		}
		return func(at int64) float32 { return firstNumber(chunk, own+at-begins) }
	}
	return sum
}
