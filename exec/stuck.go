package exec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"psim/schedules/graph"
)

// A StuckError says that nothing has begun or ended for a while: every stream
// waits, or a task does not come back.
type StuckError struct {
	Graph *graph.Graph
	Stall time.Duration // 0 where nothing can begin
	Heads []Head
	Inner []*StuckError // of graphs that are run within tasks
	// Elsewhere has the same of other processes, a line for each.
	Elsewhere string
}

// A Head is the next task of a stream that has tasks left.
type Head struct {
	Task     int32
	WaitsFor int32 // a dependency that has not ended, or None
}

// Error prints the head of every stream and what it waits for.
func (e *StuckError) Error() string {
	var b strings.Builder
	b.WriteString("stuck: nothing can begin any more")
	if e.Stall > 0 {
		b.Reset()
		fmt.Fprintf(&b, "stuck: nothing has begun or ended for %v", e.Stall)
	}
	b.WriteString(e.lines())
	return b.String()
}

// lines says what everything waits for, each after a line break.
func (e *StuckError) lines() string {
	var b strings.Builder
	e.describe(&b)
	return b.String() + e.Elsewhere
}

func (e *StuckError) describe(b *strings.Builder) {
	for _, h := range e.Heads {
		fmt.Fprintf(b, "\n  %s ", e.Graph.Describe(h.Task))
		t := e.Graph.Task(h.Task)
		switch {
		case h.WaitsFor != graph.None:
			fmt.Fprintf(b, "waits for %s", e.Graph.Describe(h.WaitsFor))
		case t.Kind.Collective():
			fmt.Fprintf(b, "is at its collective or waits for the other ranks of group %v", e.Graph.Groups[t.Peer])
		default:
			b.WriteString("has begun and does not end")
		}
	}
	for _, inner := range e.Inner {
		fmt.Fprintf(b, "\nin %s of these", inner.Graph.Name)
		inner.describe(b)
	}
}

// guard watches a run until the returned function says that its tasks have come back.
func (r *runner) guard(ctx context.Context, o RunOptions) (unwatch func()) {
	ended := make(chan struct{})
	var watchdog sync.WaitGroup
	if o.Stall > 0 {
		watchdog.Go(func() { r.watch(ctx, ended, o) })
	}
	return func() {
		close(ended)
		watchdog.Wait()
	}
}

// patience bounds how long tasks may take to come back when a run has ended as stuck.
const patience = 2 * time.Second

// watch ends the run when nothing has happened for as long as o.Stall, and abandons
// tasks that do not come back then.
func (r *runner) watch(ctx context.Context, ended <-chan struct{}, o RunOptions) {
	const looks = 8 // at the progress while nothing happens
	timer := time.NewTicker(o.Stall / looks)
	defer timer.Stop()
	var told <-chan struct{} // by another process
	if r.share != nil {
		told = r.share.world.Stuck()
	}
	for same, last := 0, -1; same < looks; same++ {
		select {
		case <-ended:
			return
		case <-told:
			same = looks
			continue
		case <-timer.C:
		}
		r.mu.Lock()
		if r.progress != last {
			same, last = -1, r.progress
		}
		r.mu.Unlock()
		if same == looks-1 && r.share != nil && !r.share.world.Still(o.Stall) {
			same = -1 // other processes go on
		}
	}
	if ctx.Err() == nil {
		r.stuckAmong(ctx, ended, o.Stall)
		select {
		case <-ended:
			return
		case <-time.After(patience):
		}
	}
	if o.Abandon != nil {
		o.Abandon(context.Cause(ctx))
	}
}

// stuck says what everything waits for.
func (r *runner) stuck(stall time.Duration) *StuckError {
	e := &StuckError{Graph: r.graph, Stall: stall, Heads: r.heads()}
	r.mu.Lock()
	inner := slices.Collect(maps.Keys(r.inner))
	r.mu.Unlock()
	for _, within := range inner {
		e.Inner = append(e.Inner, within.stuck(stall))
	}
	return e
}

// heads lists the next task of every stream that has tasks left.
func (r *runner) heads() []Head {
	r.mu.Lock()
	defer r.mu.Unlock()
	var heads []Head
	for s := range r.graph.Streams {
		at := r.start[s] + r.head[s]
		if at == r.start[s+1] || r.only == nil && !r.runs(s) || r.only != nil && !slices.Contains(r.only, r.order[at]) {
			continue
		}
		h := Head{Task: r.order[at], WaitsFor: graph.None}
		for _, d := range r.graph.Deps(h.Task) {
			if r.pending(d) {
				h.WaitsFor = d
			}
		}
		heads = append(heads, h)
	}
	return heads
}
