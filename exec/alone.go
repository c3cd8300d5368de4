package exec

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"psim/internal/fault"
	"psim/schedules/graph"
)

// OneByOne performs the tasks of a well-formed graph as Run does, but never two
// at a time, except the ranks of one collective: so every task is measured
// alone. It fails with the first task that does.
func OneByOne(ctx context.Context, g *graph.Graph, do Do, o RunOptions) (*graph.Trace, error) {
	r, ctx := newRunner(ctx, g, do, o)
	defer r.close()
	defer r.guard(ctx, o)()
	for done := 0; done < len(g.Tasks); {
		tasks := r.pick()
		if len(tasks) == 0 {
			return r.trace, r.stuck(0)
		}
		if err := r.together(ctx, tasks); err != nil {
			return r.trace, err
		}
		done += len(tasks)
	}
	return r.trace, nil
}

// inOrder performs all tasks in their own order, one after another. Each must depend on
// those before it alone, and none be a collective.
func inOrder(ctx context.Context, g *graph.Graph, do Do, o RunOptions) (*graph.Trace, error) {
	r, ctx := newRunner(ctx, g, do, o)
	defer r.close()
	defer r.guard(ctx, o)()
	for i := range g.Tasks {
		if err := r.together(ctx, []int32{int32(i)}); err != nil {
			return r.trace, err
		}
	}
	return r.trace, nil
}

// pick finds a task that may run, or all ranks of a collective.
func (r *runner) pick() []int32 {
	waiting := map[int32][]int32{} // by group: the tasks of ranks that are ready
	for s := range r.graph.Streams {
		at := r.start[s] + r.head[s]
		if at == r.start[s+1] {
			continue
		}
		i := r.order[at]
		t := &r.graph.Tasks[i]
		if slices.ContainsFunc(r.graph.Deps(i), r.pending) {
			continue
		}
		if !t.Kind.Collective() {
			return []int32{i}
		}
		waiting[t.Peer] = append(waiting[t.Peer], i)
		if len(waiting[t.Peer]) == len(r.graph.Groups[t.Peer]) {
			return waiting[t.Peer]
		}
	}
	return nil
}

// pending reports whether a task has not ended.
func (r *runner) pending(i int32) bool {
	select {
	case <-r.done[i]:
		return false
	default:
		return true
	}
}

// together performs tasks side by side and waits for all.
func (r *runner) together(ctx context.Context, tasks []int32) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r.under(tasks)
	defer r.under(nil)
	if len(tasks) == 1 {
		r.alone(ctx, tasks[0])
		return context.Cause(ctx)
	}
	var all sync.WaitGroup
	for _, i := range tasks {
		all.Go(func() { r.alone(ctx, i) })
	}
	all.Wait()
	return context.Cause(ctx)
}

// under notes which tasks are under way.
func (r *runner) under(tasks []int32) {
	r.mu.Lock()
	r.only = tasks
	r.mu.Unlock()
}

// alone performs a task that waits for nothing.
func (r *runner) alone(ctx context.Context, i int32) {
	s := int(r.graph.Tasks[i].Stream)
	ended := int(r.head[s])
	r.advance(s, ended)
	from := time.Since(r.begin)
	damage, err := r.perform(ctx, i)
	if err != nil {
		r.cancel(&TaskError{r.graph, i, err})
		return
	}
	r.trace.Ready[i] = from
	r.trace.Spans[i] = graph.Span{Start: from, End: time.Since(r.begin)}
	r.advance(s, ended+1)
	if damage != fault.Lost {
		close(r.done[i])
	}
}

// Profile measures every task alone: it runs steps one task after another,
// drops the first, which warms up, and returns the traces of the others. The
// trainer then begins anew, with its first parameters.
func (t *Trainer) Profile(ctx context.Context, b Batch, repeats int, o RunOptions) ([]*graph.Trace, error) {
	var traces []*graph.Trace
	resume := holdGarbage()
	defer resume()
	for n := range repeats + 1 {
		runtime.GC()
		trace, _, err := t.stepWith(ctx, OneByOne, b, o, nil)
		if err != nil {
			return nil, t.explain(ctx, func(int) Batch { return b }, NumberError{Step: n, Steps: repeats + 1, Seen: err}, o)
		}
		if n > 0 {
			traces = append(traces, trace)
		}
	}
	return traces, t.Reset()
}
