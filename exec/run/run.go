// Package run performs the tasks of any graph for real, by the rules that package sim
// predicts it by: one goroutine for every stream takes its tasks in order, each when all
// that it depends on has ended. It knows nothing of what tasks do. The spans that it
// records are a trace like the simulator's.
//
// [Graph] runs all streams at once, [OneByOne] one task after another. Both work alone or
// together with other processes ([Portion]) that have some of the ranks each.
package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"psim/exec/cluster"
	"psim/internal/fault"
	"psim/schedules/graph"
)

// Do performs one task, the i-th of a graph, and returns when it is done. It is called from the
// goroutine of the task's stream; tasks of different streams run at the same time. A fused
// collective is called once for every rank, when all ranks of its group have arrived. Do should
// return early when ctx ends.
type Do func(ctx context.Context, i int32) error

// Options say how a graph is run.
type Options struct {
	// Stall is how long nothing may begin or end before the run counts as stuck; 0 waits for
	// ever.
	Stall time.Duration
	// Abandon is called with the cause if the run has ended but some tasks do not return. They
	// still hold their tensors and devices, so all that it can do is end the process. Without
	// it the run waits for ever.
	Abandon func(cause error)
	// Begin is time zero of the trace; the zero value is when the run begins.
	Begin time.Time
	// AtOnce is the number of ranks whose tasks OneByOne performs at the same time; 0 is one.
	AtOnce int
	// StartSeed draws the order in which the devices start; 0 is the order of their ranks.
	StartSeed uint64
	// World is the processes that run the graph together, each the tasks of its own ranks. The
	// trace then has only those. Nil is this process alone.
	World *cluster.World

	// Portion is what this process performs of the run. Nil derives it from the World, for a
	// graph that runs once and whose messages carry no data.
	Portion *Portion
}

// Graph performs all tasks of a well-formed graph and returns when each of them ran. The first
// task that fails, or panics, stops all streams and is returned as a *TaskError. A run that
// makes no progress ends with a *StuckError, and a run whose ctx ends with the cause of that.
// Graph returns only after every goroutine that it started has ended. With an error the trace
// holds what was measured until then; a task that did not end has an empty span.
func Graph(ctx context.Context, g *graph.Graph, do Do, o Options) (*graph.Trace, error) {
	if o.World != nil {
		defer addThread()()
	}
	r, ctx := newRunner(ctx, g, do, o)
	defer r.close()
	var streams sync.WaitGroup
	for _, s := range startOrder(g, o.StartSeed) {
		if r.runsHere(s) {
			begun := make(chan struct{})
			streams.Go(func() {
				close(begun)
				r.stream(ctx, s)
			})
			if o.StartSeed > 0 {
				<-begun // otherwise the scheduler chooses the order
			}
		}
		if r.hasArrivals(s) {
			streams.Go(func() { r.receiveAll(ctx, s) })
		}
	}
	unwatch := r.startWatchdog(ctx, o)
	streams.Wait()
	unwatch()
	return r.trace, r.endCause(ctx)
}

// startOrder lists the streams in the order in which they start: with a seed, device by device,
// and the devices in an order that is drawn.
func startOrder(g *graph.Graph, seed uint64) []int {
	streams := make([]int, len(g.Streams))
	for s := range streams {
		streams[s] = s
	}
	if seed > 0 {
		place := rand.New(rand.NewPCG(seed, 0)).Perm(g.Ranks())
		slices.SortStableFunc(streams, func(a, b int) int {
			return place[g.Streams[a].Rank] - place[g.Streams[b].Rank]
		})
	}
	return streams
}

// A runner holds the state of one run.
type runner struct {
	graph   *graph.Graph
	do      Do
	fault   fault.Hook // nil outside tests
	cancel  context.CancelCauseFunc
	trace   *graph.Trace
	begin   time.Time
	portion *Portion // nil where this process runs the whole graph

	start, order []int32         // order[start[s]:start[s+1]] are the tasks of stream s
	done         []chan struct{} // by task: closed when it has ended
	groups       []*meeting      // by group

	outer *runner // the run in which a task runs this graph; nil for none

	mu       sync.Mutex
	progress int              // tasks that have begun or ended so far, here and in inner runs
	head     []int32          // by stream: how many of its tasks have ended
	inner    map[*runner]bool // runs of graphs within tasks of this one
	current  []int32          // the tasks that are performed now, where they take turns
}

// An outerKey finds, in the context of a task, the runner that performs the task.
type outerKey struct{}

// newRunner returns a runner and the context for its tasks. Call close when done.
func newRunner(ctx context.Context, g *graph.Graph, do Do, o Options) (*runner, context.Context) {
	if o.Begin.IsZero() {
		o.Begin = time.Now()
	}
	n := g.Len()
	start, order := g.ByStream()
	r := &runner{
		graph: g, do: do, fault: fault.From(ctx), begin: o.Begin, portion: o.portion(g), inner: map[*runner]bool{},
		trace: &graph.Trace{Graph: g, Spans: make([]graph.Span, n), Ready: make([]time.Duration, n)},
		start: start, order: order, done: make([]chan struct{}, n), head: make([]int32, len(g.Streams)),
	}
	for i := range r.done {
		r.done[i] = make(chan struct{})
	}
	for k := range g.Groups {
		r.groups = append(r.groups, r.newMeeting(k))
	}
	if r.outer, _ = ctx.Value(outerKey{}).(*runner); r.outer != nil {
		r.outer.mu.Lock()
		r.outer.inner[r] = true
		r.outer.mu.Unlock()
	}
	ctx, r.cancel = context.WithCancelCause(ctx)
	return r, context.WithValue(ctx, outerKey{}, r)
}

func (r *runner) close() {
	r.cancel(nil)
	if r.outer != nil {
		r.outer.mu.Lock()
		delete(r.outer.inner, r)
		r.outer.mu.Unlock()
	}
}

// stream performs the tasks of one stream until all have ended or the run ends.
func (r *runner) stream(ctx context.Context, s int) {
	for n, i := range r.order[r.start[s]:r.start[s+1]] {
		if !r.wait(ctx, i) {
			return
		}
		r.advance(s, n)
		from := time.Since(r.begin)
		r.trace.Ready[i] = r.ready(s, n, i)
		damage, err := r.perform(ctx, i)
		if err != nil {
			if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
				r.cancel(r.taskFailure(i, err)) // has no effect after another failure
			}
			return
		}
		r.trace.Spans[i] = graph.Span{Start: from, End: time.Since(r.begin)}
		r.advance(s, n+1)
		if damage != fault.Lost {
			r.announceEnd(i)
		}
	}
}

// ready returns when the last of the tasks ended that a task waited for: those that it depends
// on, and the task before it on its stream.
func (r *runner) ready(s, n int, i int32) time.Duration {
	var at time.Duration
	if r.portion != nil {
		return at // Straighten finds it once the spans of all processes are known
	}
	for _, d := range r.graph.Deps(i) {
		at = max(at, r.trace.Spans[d].End)
	}
	if n > 0 {
		at = max(at, r.trace.Spans[r.order[int(r.start[s])+n-1]].End)
	}
	return at
}

// wait blocks until everything has ended that a task waits for. It returns false if the run
// ends first.
func (r *runner) wait(ctx context.Context, i int32) bool {
	for _, d := range r.graph.Deps(i) {
		select {
		case <-r.done[d]:
		case <-ctx.Done():
			return false
		}
	}
	if t := r.graph.Class(i); t.Kind.Collective() {
		return r.groups[t.Peer].arrive(ctx, r)
	}
	return ctx.Err() == nil
}

// perform calls Do, and sends a message on to the process of its receiver.
func (r *runner) perform(ctx context.Context, i int32) (damage fault.Damage, err error) {
	defer recoverAsError(&err)
	if r.fault != nil {
		if damage, err = r.fault(ctx, r.graph.Name, r.graph.Class(i).Rank, i); err != nil {
			return damage, err
		}
		ctx = fault.WithDamage(ctx, damage)
	}
	if err = r.do(ctx, i); err == nil && r.portion != nil {
		err = r.portion.sendMessage(i, damage)
	}
	return damage, err
}

// advance notes that a task of a stream has begun or ended.
func (r *runner) advance(stream, ended int) {
	r.mu.Lock()
	r.progress++
	r.head[stream] = int32(ended)
	r.mu.Unlock()
	r.noteProgress()
}

// noteProgress counts an event for the watchdogs of the outer runs and of the other processes.
func (r *runner) noteProgress() {
	if r.portion != nil {
		r.portion.World.Progress()
	}
	for o := r.outer; o != nil; o = o.outer {
		o.mu.Lock()
		o.progress++
		o.mu.Unlock()
	}
}

// A meeting lets the ranks of a group start a collective together, any number of times.
type meeting struct {
	group, size int // size counts its ranks in this process
	mu          sync.Mutex
	here        int
	round       int           // how many collectives have begun
	open        chan struct{} // closed when all ranks of this round have arrived
}

func (r *runner) newMeeting(group int) *meeting {
	m := &meeting{group: group, size: len(r.graph.Groups[group]), open: make(chan struct{})}
	if r.portion != nil {
		m.size = r.portion.LocalRanks[group]
	}
	return m
}

// arrive blocks until all ranks of the group have arrived, in all processes. It returns false
// if ctx ends first.
func (m *meeting) arrive(ctx context.Context, r *runner) bool {
	m.mu.Lock()
	open, round := m.open, m.round
	m.here++
	last := m.here == m.size
	if last {
		m.here, m.open = 0, make(chan struct{})
		m.round++
	}
	m.mu.Unlock()
	if last {
		if r.portion != nil && !r.awaitGroup(ctx, m.group, round) {
			return false
		}
		close(open)
	}
	select {
	case <-open:
		return true
	case <-ctx.Done():
		return false
	}
}

// addThread lets Go run a second thread in a process that is bound to a single core, and
// returns the undo. Without it, a message that arrives while a task computes is noticed only
// when the scheduler interrupts the task, after 10 ms.
func addThread() func() {
	cores := runtime.GOMAXPROCS(0)
	if cores > 1 {
		return func() {}
	}
	runtime.GOMAXPROCS(cores + 1)
	return func() { runtime.GOMAXPROCS(cores) }
}
