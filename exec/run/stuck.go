package run

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

// A StuckError says that nothing has begun or ended for a while: every stream waits, or a task
// does not return.
type StuckError struct {
	Graph *graph.Graph
	Stall time.Duration // 0 if no task can begin
	Heads []Head
	Inner []*StuckError // of graphs that run within tasks
	// Elsewhere describes the other processes, a line for each task.
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

// lines describes what every head waits for, each after a line break.
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

// startWatchdog watches a run until the returned function is called, when its tasks have
// returned.
func (r *runner) startWatchdog(ctx context.Context, o Options) (unwatch func()) {
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

// abandonAfter bounds how long tasks may take to return once a run has ended as stuck.
const abandonAfter = 2 * time.Second

// watch ends the run when nothing has happened for o.Stall, and abandons tasks that do not
// return then.
func (r *runner) watch(ctx context.Context, ended <-chan struct{}, o Options) {
	const looks = 8 // at the progress, while nothing happens
	timer := time.NewTicker(o.Stall / looks)
	defer timer.Stop()
	var told <-chan struct{} // closed when another process finds the run stuck
	if r.portion != nil {
		told = r.portion.World.Stuck()
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
		if same == looks-1 && r.portion != nil && !r.portion.World.Still(o.Stall) {
			same = -1 // other processes make progress
		}
	}
	if ctx.Err() == nil {
		r.endStuck(ctx, ended, o.Stall)
		select {
		case <-ended:
			return
		case <-time.After(abandonAfter):
		}
	}
	if o.Abandon != nil {
		o.Abandon(context.Cause(ctx))
	}
}

// stuckError describes what every stream waits for.
func (r *runner) stuckError(stall time.Duration) *StuckError {
	e := &StuckError{Graph: r.graph, Stall: stall, Heads: r.heads()}
	r.mu.Lock()
	inner := slices.Collect(maps.Keys(r.inner))
	r.mu.Unlock()
	for _, within := range inner {
		e.Inner = append(e.Inner, within.stuckError(stall))
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
		if at == r.start[s+1] || !r.mayBegin(s, r.order[at]) {
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

// mayBegin reports whether a task of a stream is one that this process performs now.
func (r *runner) mayBegin(s int, i int32) bool {
	if r.current == nil {
		return r.runsHere(s)
	}
	return slices.Contains(r.current, i)
}

// How long the first of several stuck processes waits for the reports of the others, and
// how long these wait for the first.
const (
	reportsWait = time.Second
	firstWait   = 2 * time.Second
)

// stuckKey names a process's report on its tasks when the run is stuck.
const stuckKey = "stuck"

// endStuck ends the run as stuck. Of several processes, the first collects what all of them
// wait for and ends the run for all.
func (r *runner) endStuck(ctx context.Context, ended <-chan struct{}, stall time.Duration) {
	e := r.stuckError(stall)
	if r.portion == nil {
		r.cancel(e)
		return
	}
	r.portion.World.TellStuck()
	if w := r.portion.World; w.Rank > 0 {
		w.Send(0, stuckKey, []byte(e.lines())) // an error of Send ends the run anyway
		select {
		case <-ended:
		case <-ctx.Done():
		case <-time.After(firstWait):
		}
	} else {
		late, cancel := context.WithTimeout(ctx, reportsWait)
		for k := 1; k < w.Size; k++ {
			lines, _ := w.Receive(late, k, stuckKey) // nil if the report does not come in time
			for line := range strings.SplitAfterSeq(string(lines), "\n") {
				if line = strings.TrimSpace(line); line != "" && !strings.Contains(e.lines(), line) {
					e.Elsewhere += "\n  " + line
				}
			}
		}
		cancel()
	}
	r.cancel(e)
}
