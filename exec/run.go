package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"psim/exec/processes"
	"psim/internal/fault"
	"psim/schedules/graph"
)

// Do performs one task, the i-th of a graph, and returns when it is done. It
// is called from the goroutine of the task's stream; tasks of different
// streams run side by side. A fused collective is called once per rank, when
// all ranks of its group have arrived. It should return early when ctx ends.
type Do func(ctx context.Context, i int32) error

// RunOptions say how a graph is run.
type RunOptions struct {
	// Stall is how long nothing may begin or end before the run counts as
	// stuck; 0 waits for ever.
	Stall time.Duration
	// Abandon is called with the cause when tasks do not come back though the run has
	// ended for a while. They still hold what they work with, so all it can do is to
	// end the process. Without it, Run waits for ever.
	Abandon func(cause error)
	// Begin is the time zero of the trace; the zero value is when Run begins.
	Begin time.Time
	// AtOnce is of how many ranks OneByOne performs tasks together; 0 is one.
	AtOnce int
	// World is the processes that run the graph together, each the tasks of its own
	// ranks, which are all that its trace then has; nil is this one alone.
	World *processes.World

	part *share // nil: that of a graph that runs once, with nothing to tell
}

// A TaskError is the first failure of a run.
type TaskError struct {
	Graph *graph.Graph
	Task  int32
	Err   error
}

// Error names the task, its rank and its stream.
func (e *TaskError) Error() string { return e.Graph.Describe(e.Task) + ": " + e.Err.Error() }

// Unwrap returns what the task failed with.
func (e *TaskError) Unwrap() error { return e.Err }

// Run performs all tasks of a well-formed graph and returns when each ran.
// The first task that fails, or panics, stops all streams and is returned as
// a *TaskError; a run that makes no progress ends with a *StuckError; and when
// ctx ends, with its cause. Run returns only after every goroutine it started
// has ended. With an error the trace holds what was measured until then, and a
// task that did not end has an empty span.
func Run(ctx context.Context, g *graph.Graph, do Do, o RunOptions) (*graph.Trace, error) {
	if o.World != nil {
		defer spare()()
	}
	r, ctx := newRunner(ctx, g, do, o)
	defer r.close()
	var streams sync.WaitGroup
	for s := range g.Streams {
		if r.runs(s) {
			streams.Go(func() { r.stream(ctx, s) })
		}
		if r.arrives(s) {
			streams.Go(func() { r.arrive(ctx, s) })
		}
	}
	unwatch := r.guard(ctx, o)
	streams.Wait()
	unwatch()
	return r.trace, r.cause(ctx)
}

// A runner holds the state of one run.
type runner struct {
	graph  *graph.Graph
	do     Do
	fault  fault.Hook // nil but in tests
	cancel context.CancelCauseFunc
	trace  *graph.Trace
	begin  time.Time
	share  *share // nil: the whole graph

	start, order []int32         // the tasks of every stream
	done         []chan struct{} // by task: closed when it has ended
	groups       []*meeting      // by group

	outer *runner // of which a task runs this graph; nil for none

	mu       sync.Mutex
	progress int              // tasks begun and ended so far, here and within tasks
	head     []int32          // by stream: how many of its tasks have ended
	inner    map[*runner]bool // graphs that tasks run
	only     []int32          // the tasks under way, where others wait for their turn
}

// outerKey finds the runner whose task has a context.
type outerKey struct{}

// newRunner returns one with the context of its tasks. Close it.
func newRunner(ctx context.Context, g *graph.Graph, do Do, o RunOptions) (*runner, context.Context) {
	if o.Begin.IsZero() {
		o.Begin = time.Now()
	}
	start, order := g.ByStream()
	r := &runner{
		graph: g, do: do, fault: fault.From(ctx), begin: o.Begin, share: o.share(g), inner: map[*runner]bool{},
		trace: &graph.Trace{Graph: g, Spans: make([]graph.Span, g.Len()), Ready: make([]time.Duration, g.Len())},
		start: start, order: order, done: make([]chan struct{}, g.Len()), head: make([]int32, len(g.Streams)),
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

// stream runs the tasks of one stream until all are done or the run ends.
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
				r.cancel(r.failed(i, err)) // the first cause stays
			}
			return
		}
		r.trace.Spans[i] = graph.Span{Start: from, End: time.Since(r.begin)}
		r.advance(s, n+1)
		if damage != fault.Lost {
			r.ended(i)
		}
	}
}

// ready returns when everything that a task waited for had ended: what it depends
// on, and the task before it on its stream.
func (r *runner) ready(s, n int, i int32) time.Duration {
	var at time.Duration
	if r.share != nil {
		return at // it is found when all processes' spans are known
	}
	for _, d := range r.graph.Deps(i) {
		at = max(at, r.trace.Spans[d].End)
	}
	if n > 0 {
		at = max(at, r.trace.Spans[r.order[int(r.start[s])+n-1]].End)
	}
	return at
}

// wait blocks until everything that a task waits for has ended; false if the
// run ends first.
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

// perform calls do, and hands a message over to the process of its receiver.
func (r *runner) perform(ctx context.Context, i int32) (damage fault.Damage, err error) {
	defer caught(&err)
	if r.fault != nil {
		if damage, err = r.fault(ctx, r.graph.Name, r.graph.Class(i).Rank, i); err != nil {
			return damage, err
		}
		ctx = context.WithValue(ctx, damageKey{}, damage)
	}
	if err = r.do(ctx, i); err == nil && r.share != nil {
		err = r.share.handOver(i, damage)
	}
	return damage, err
}

// caught turns a panic into an error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// advance notes that a task of a stream begins or has ended.
func (r *runner) advance(stream, ended int) {
	r.mu.Lock()
	r.progress++
	r.head[stream] = int32(ended)
	r.mu.Unlock()
	r.moved()
}

// moved tells those around it that something has begun or ended.
func (r *runner) moved() {
	if r.share != nil {
		r.share.world.Progress()
	}
	for o := r.outer; o != nil; o = o.outer {
		o.mu.Lock()
		o.progress++
		o.mu.Unlock()
	}
}

// A meeting lets the ranks of a group start a collective together, again and
// again.
type meeting struct {
	group, size int // ranks of this process
	mu          sync.Mutex
	here        int
	round       int           // how many have begun
	open        chan struct{} // closed when all of this round are here
}

func (r *runner) newMeeting(group int) *meeting {
	m := &meeting{group: group, size: len(r.graph.Groups[group]), open: make(chan struct{})}
	if r.share != nil {
		m.size = r.share.own[group]
	}
	return m
}

// arrive blocks until all have arrived, in all processes; false if ctx ends first.
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
		if r.share != nil && !r.meet(ctx, m.group, round) {
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
