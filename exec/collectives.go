package exec

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"psim/exec/programs"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A CollectiveRun is a collective that runs by itself on devices, on tensors of fp32 whose
// sums are exact.
type CollectiveRun struct {
	Call    collective.Call // Length is in numbers
	Warmup  int             // runs before those that are measured
	Repeats int             // runs that are measured, and more where they are short
	RunOptions
}

// A CollectiveTime is what was measured of one.
type CollectiveTime struct {
	Graph *graph.Graph
	Time  time.Duration // the median of the runs
	// Tasks is what tasks take, those of equal kind and size alike, when a step of it is
	// performed on all ranks that have a core, and nothing else. Handing is what a run takes
	// whose tasks only let that time pass: with all goroutines that wake each other.
	Tasks   []time.Duration
	Handing time.Duration
	Cores   int // how many tasks can run at once; 0 is any number
	Wrong   int // numbers that are not what they should be, over all ranks
}

// NumberBytes counts the bytes of a number of a collective's tensors.
const NumberBytes = 4

// A collective is run again beyond its repeats until it was run mostRepeats times, or all
// that belongs to it has taken enough.
const (
	mostRepeats = 25
	enough      = 100 * time.Millisecond
)

// Measure runs it, checks every number, and times tasks and what lies between them: in
// turns, so that all find the machine alike.
func (r CollectiveRun) Measure(ctx context.Context, devices []*programs.Device) (result CollectiveTime, err error) {
	defer func() { err = duringRun(err) }()
	r.Call.Element = NumberBytes
	if result.Graph, err = r.Call.Graph(); err != nil {
		return result, err
	}
	arithmetic := make([]*programs.Arithmetic, len(devices))
	for i, d := range devices {
		arithmetic[i] = programs.NewArithmetic(d.Backend)
		defer arithmetic[i].Close()
	}
	defer holdGarbage()()
	result.Cores = r.AtOnce
	var times, handing []time.Duration
	parts := map[like][]time.Duration{}
	begin := time.Now()
	for n := 0; n < r.Warmup+r.Repeats || n < mostRepeats && time.Since(begin) < enough; n++ {
		if n >= r.Warmup {
			took, err := r.apart(ctx, devices, arithmetic)
			if err != nil {
				return result, err
			}
			for i := range took {
				key := likeOf(&result.Graph.Tasks[i])
				parts[key] = append(parts[key], took[i])
			}
			result.Tasks = medians(result.Graph, parts)
			passed, err := r.pass(ctx, result)
			if err != nil {
				return result, err
			}
			handing = append(handing, passed)
		}
		wrong, took, err := r.once(ctx, devices, arithmetic, func(ctx context.Context, c *carrier) error {
			_, err := Run(ctx, c.graph, c.do, r.RunOptions)
			return err
		})
		if err != nil {
			return result, err
		}
		if result.Wrong += wrong; n >= r.Warmup {
			times = append(times, took)
		}
	}
	result.Time, result.Handing = middle(times), middle(handing)
	return result, nil
}

// once makes tensors, runs the collective on them, and counts the numbers that are wrong.
func (r CollectiveRun) once(ctx context.Context, devices []*programs.Device, arithmetic []*programs.Arithmetic, run func(context.Context, *carrier) error) (wrong int, took time.Duration, err error) {
	runtime.GC()
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
	start := time.Now()
	if err := run(ctx, c); err != nil {
		return 0, 0, err
	}
	took = time.Since(start)
	wrong, err = r.wrong(row, c.into)
	return wrong, took, err
}

// number makes what a rank has at a place at first: small, so that sums are exact, and such
// that neighbours differ.
func number(rank int, at int64) float32 { return float32((at*7 + int64(rank)*31) % 1021) }

// upload makes every rank's tensor, in chunks.
func (r CollectiveRun) upload(row collective.Collective, devices []*programs.Device) ([]programs.List, error) {
	all := make([]programs.List, len(devices))
	for rank, d := range devices {
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

// A like is what tasks have in common that take equally long.
type like struct {
	kind  graph.Kind
	bytes int64
}

func likeOf(t *graph.Task) like { return like{t.Kind, t.Bytes} }

// medians returns those of all tasks that are alike, by task.
func medians(g *graph.Graph, times map[like][]time.Duration) []time.Duration {
	list := make([]time.Duration, len(g.Tasks))
	for i := range g.Tasks {
		list[i] = middle(times[likeOf(&g.Tasks[i])])
	}
	return list
}

// apart performs the messages of a step on all ranks that have a core at once: first their
// sends, and when these have ended what is done with them. It returns what tasks took.
func (r CollectiveRun) apart(ctx context.Context, devices []*programs.Device, arithmetic []*programs.Arithmetic) (took []time.Duration, err error) {
	_, _, err = r.once(ctx, devices, arithmetic, func(ctx context.Context, c *carrier) error {
		took = make([]time.Duration, len(c.graph.Tasks))
		errs := make([]error, len(c.graph.Tasks))
		perform := func(tasks []int32) {
			var all sync.WaitGroup
			for _, i := range tasks {
				all.Go(func() {
					start := time.Now()
					errs[i] = c.do(ctx, i)
					took[i] = time.Since(start)
				})
			}
			all.Wait()
		}
		for next := 0; next < len(c.moves); {
			sends, takes := r.together(c, next)
			perform(sends)
			if err := errors.Join(append(errs, ctx.Err())...); err != nil {
				return err
			}
			perform(takes)
			next += len(sends)
		}
		return errors.Join(errs...)
	})
	return took, err
}

// together returns the two ends of the next moves that need none of each other, between
// different ranks, as many as there are cores.
func (r CollectiveRun) together(c *carrier, next int) (sends, takes []int32) {
	from, to := map[int]bool{}, map[int]bool{}
	for k := next; k < len(c.moves) && len(sends) < max(1, r.AtOnce); k++ {
		m, send := c.moves[k], int32(2*k)
		needs := slices.ContainsFunc(c.graph.Deps(send), func(d int32) bool { return d >= int32(2*next) })
		if needs || from[m.From] || to[m.To] {
			break
		}
		from[m.From], to[m.To] = true, true
		sends, takes = append(sends, send), append(takes, send+1)
	}
	return sends, takes
}

// pass runs the graph with tasks that let the time pass which they take, and do nothing.
func (r CollectiveRun) pass(ctx context.Context, t CollectiveTime) (time.Duration, error) {
	start := time.Now()
	_, err := Run(ctx, t.Graph, func(_ context.Context, i int32) error {
		for begin := time.Now(); time.Since(begin) < t.Tasks[i]; {
		}
		return nil
	}, r.RunOptions)
	return time.Since(start), err
}
