package exec

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"psim/exec/programs"
	"psim/internal/units"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A CollectiveRun is a collective that runs by itself on devices, on tensors of fp32 whose
// sums are exact.
type CollectiveRun struct {
	Call    collective.Call // Length is in numbers
	Warmup  int             // runs before those that are measured
	Repeats int             // runs that are measured, and more where they are short
	// Stage is called when another part of the work begins, if it is set.
	Stage func(what string)
	RunOptions
}

func (r CollectiveRun) say(format string, args ...any) {
	if r.Stage != nil {
		r.Stage(fmt.Sprintf(format, args...))
	}
}

// A CollectiveTime is what was measured of one.
type CollectiveTime struct {
	Graph *graph.Graph
	Time  time.Duration // the median of the runs
	// Alone is what every task takes when nothing else runs, or in one process beside those
	// of the same step on other cores; of messages between processes, what they take longer
	// than empty ones, which are a part of Empty: what a run takes whose tasks do nothing but
	// let Passed pass, nil for no time: with all goroutines that wake each other.
	Alone, Passed []time.Duration
	Empty         time.Duration
	Cores         int // how many tasks can run at once; 0 is any number
	Wrong         int // numbers that are not what they should be, over all ranks
	// Processes are those that ran it together; none where it was this one alone.
	Processes []Member
}

// NumberBytes counts the bytes of a number of a collective's tensors.
const NumberBytes = 4

// A collective is run again beyond its repeats until all runs have summed up enough bytes,
// as often in every process, but at most mostRepeats times.
const (
	mostRepeats = 50
	enough      = 128 << 20
)

// often returns how many runs are measured.
func (r CollectiveRun) often() int {
	return max(r.Repeats, min(mostRepeats, enough/int(max(1, r.Call.Length*NumberBytes))))
}

// Measure runs it, checks every number, and times every task alone. Of several processes,
// which all call it with the devices of their own ranks, the first knows of all.
func (r CollectiveRun) Measure(ctx context.Context, devices []*programs.Device) (result CollectiveTime, err error) {
	defer func() { err = duringRun(err) }()
	r.Call.Element = NumberBytes
	if result.Graph, err = r.Call.Graph(); err != nil {
		return result, err
	}
	arithmetic := make([]*programs.Arithmetic, len(devices))
	for i, d := range devices {
		if d != nil {
			arithmetic[i] = programs.NewArithmetic(d.Backend)
			defer arithmetic[i].Close()
		}
	}
	defer holdGarbage()()
	err = r.runs(ctx, devices, arithmetic, &result)
	return result, err
}

// runs measures the runs, and in turns with them what they are made of, so that both find
// the machine alike.
func (r CollectiveRun) runs(ctx context.Context, devices []*programs.Device, arithmetic []*programs.Arithmetic, result *CollectiveTime) error {
	var times []time.Duration
	parts := handing{run: r, devices: devices, arithmetic: arithmetic}
	for n := range r.Warmup + r.often() {
		r.say("run %d of %d", n+1, r.Warmup+r.often())
		if n >= r.Warmup {
			if err := parts.measure(ctx, result); err != nil {
				return err
			}
		}
		runtime.GC()
		wrong, took, err := r.once(ctx, devices, arithmetic, func(ctx context.Context, c *carrier, o RunOptions) error {
			_, err := Run(ctx, c.graph, c.do, o)
			return err
		})
		if err != nil {
			return err
		}
		if result.Wrong += wrong; n >= r.Warmup {
			times = append(times, took)
		}
	}
	result.Time = units.Median(times)
	return nil
}

// once makes tensors, runs the collective on them, and counts the numbers that are wrong.
func (r CollectiveRun) once(ctx context.Context, devices []*programs.Device, arithmetic []*programs.Arithmetic, run func(context.Context, *carrier, RunOptions) error) (wrong int, took time.Duration, err error) {
	c, err := newCarrier(r.Call)
	if err != nil {
		return 0, 0, err
	}
	c.devices, c.arithmetic = devices, arithmetic
	defer c.release()
	free := func(lists []programs.List) {
		for _, list := range lists {
			list.Release()
		}
	}
	row, err := collective.Find(r.Call.Collective)
	if err != nil {
		return 0, 0, err
	}
	if c.chunks, err = r.upload(row, devices); err != nil {
		return 0, 0, err
	}
	defer func() { free(c.chunks) }()
	c.into = c.chunks
	if row.Result == graph.AllToAll {
		if c.into, err = r.upload(row, devices); err != nil {
			return 0, 0, err
		}
		defer func() { free(c.into) }()
	}
	o := r.of(c)
	if took, err = r.timed(ctx, func() error { return run(ctx, c, o) }); err != nil {
		return 0, 0, err
	}
	if wrong, err = r.wrong(row, c.into); err != nil {
		return 0, 0, err
	}
	counts, err := r.collect(ctx, int64(wrong))
	for _, n := range counts[1:] {
		wrong += int(n)
	}
	return wrong, took, err
}

// number makes what a rank has at a place at first: small, so that sums are exact, and such
// that neighbours differ.
func number(rank int, at int64) float32 { return float32((at*7 + int64(rank)*31) % 1021) }

// upload makes every rank's tensor, in chunks.
func (r CollectiveRun) upload(row collective.Collective, devices []*programs.Device) ([]programs.List, error) {
	all := make([]programs.List, len(devices))
	for rank, d := range devices {
		if d == nil {
			continue
		}
		var at int64
		for _, n := range collective.RingChunks(r.Call.Length, row.Chunks(r.Call.Ranks)) {
			values := make([]float32, n)
			for k := range values {
				values[k] = number(rank, at+int64(k))
			}
			at += n
			var chunk *programs.Tensor
			if n > 0 {
				var err error
				if chunk, err = programs.Upload(d, values, int(n)); err != nil {
					return all, err
				}
			}
			all[rank] = append(all[rank], chunk)
		}
	}
	return all, nil
}

// wrong counts the numbers that are not what the collective should have left.
func (r CollectiveRun) wrong(row collective.Collective, into []programs.List) (count int, err error) {
	for rank, list := range into {
		if list == nil {
			continue // a rank of another process
		}
		var at int64
		for chunk, n := range collective.RingChunks(r.Call.Length, row.Chunks(r.Call.Ranks)) {
			want := r.expected(row.Result, rank, chunk, at)
			if list[chunk] != nil && want != nil {
				values, err := programs.Read[float32](list[chunk])
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

// expected returns what a rank should have at every place of a chunk that begins at a place;
// nil where anything may be left.
func (r CollectiveRun) expected(kind graph.Kind, rank, chunk int, begins int64) func(at int64) float32 {
	sum := func(at int64) (sum float32) {
		for other := range r.Call.Ranks {
			sum += number(other, at)
		}
		return sum
	}
	owner := collective.Conventions()[0].Owner(chunk, r.Call.Ranks)
	switch {
	case kind == graph.ReduceScatter && owner != rank:
		return nil
	case kind == graph.AllGather:
		return func(at int64) float32 { return number(owner, at) }
	case kind == graph.AllToAll:
		var own int64
		for _, n := range collective.RingChunks(r.Call.Length, r.Call.Ranks)[:rank] {
			own += n
		}
		return func(at int64) float32 { return number(chunk, own+at-begins) }
	}
	return sum
}
