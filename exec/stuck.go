package exec

import (
	"context"
	"fmt"
	"strings"
	"time"

	"psim/schedules/graph"
)

// A StuckError says that nothing has begun or ended for a while: every stream
// waits, or a task does not come back.
type StuckError struct {
	Graph *graph.Graph
	Stall time.Duration
	Heads []Head
}

// A Head is the next task of a stream that has tasks left.
type Head struct {
	Task     int32
	WaitsFor int32 // a dependency that has not ended, or None
}

// Error prints the head of every stream and what it waits for.
func (e *StuckError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stuck: nothing has begun or ended for %v", e.Stall)
	for _, h := range e.Heads {
		fmt.Fprintf(&b, "\n  %s ", e.Graph.Describe(h.Task))
		t := e.Graph.Tasks[h.Task]
		switch {
		case h.WaitsFor != graph.None:
			fmt.Fprintf(&b, "waits for %s", e.Graph.Describe(h.WaitsFor))
		case t.Kind.Collective():
			fmt.Fprintf(&b, "is at its collective or waits for the other ranks of group %v", e.Graph.Groups[t.Peer])
		default:
			b.WriteString("has begun and does not end")
		}
	}
	return b.String()
}

// watch ends the run when nothing has happened for as long as stall.
func (r *runner) watch(ctx context.Context, ended <-chan struct{}, stall time.Duration) {
	timer := time.NewTicker(stall)
	defer timer.Stop()
	last := -1
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		r.mu.Lock()
		progress := r.progress
		r.mu.Unlock()
		if progress == last && (r.share == nil || r.share.world.Still(stall)) {
			r.cancel(&StuckError{Graph: r.graph, Stall: stall, Heads: r.heads()})
			return
		}
		last = progress
	}
}

func (r *runner) heads() []Head {
	r.mu.Lock()
	defer r.mu.Unlock()
	var heads []Head
	for s := range r.graph.Streams {
		at := r.start[s] + r.head[s]
		if at == r.start[s+1] || !r.runs(s) {
			continue
		}
		h := Head{Task: r.order[at], WaitsFor: graph.None}
		for _, d := range r.graph.Deps(h.Task) {
			select {
			case <-r.done[d]:
			default:
				h.WaitsFor = d
			}
		}
		heads = append(heads, h)
	}
	return heads
}
