package exec

import (
	"context"
	"slices"
	"sync"
	"time"

	"psim/internal/fault"
	"psim/schedules/graph"
)

// OneByOne performs the tasks of a well-formed graph as Run does, but never two
// at a time, except the ranks of one collective: so every task is measured
// alone. With o.AtOnce it begins what several ranks compute together, and waits for
// all of that. It fails with the first task that does.
func OneByOne(ctx context.Context, g *graph.Graph, do Do, o RunOptions) (*graph.Trace, error) {
	r, ctx := newRunner(ctx, g, do, o)
	defer r.close()
	defer r.guard(ctx, o)()
	for done := 0; done < g.Len(); {
		tasks := r.pick(max(1, o.AtOnce))
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

// inSteps performs tasks step by step, those of a step side by side. Each must depend on
// those of steps before its own alone, and none be a collective.
func inSteps(ctx context.Context, g *graph.Graph, steps [][]int32, do Do, o RunOptions) (*graph.Trace, error) {
	r, ctx := newRunner(ctx, g, do, o)
	defer r.close()
	defer r.guard(ctx, o)()
	for _, tasks := range steps {
		if err := r.together(ctx, tasks); err != nil {
			return r.trace, err
		}
	}
	return r.trace, nil
}

// pick finds a task that may run, all ranks of a collective, or what so many ranks
// may compute.
func (r *runner) pick(atOnce int) (tasks []int32) {
	waiting := map[int32][]int32{} // by group: the tasks of ranks that are ready
	for s := range r.graph.Streams {
		at := r.start[s] + r.head[s]
		if at == r.start[s+1] {
			continue
		}
		i := r.order[at]
		t := r.graph.Class(i)
		if slices.ContainsFunc(r.graph.Deps(i), r.pending) {
			continue
		}
		switch {
		case t.Kind.Collective():
			waiting[t.Peer] = append(waiting[t.Peer], i)
			if len(waiting[t.Peer]) == len(r.graph.Groups[t.Peer]) {
				return waiting[t.Peer]
			}
		case t.Kind.Message() || atOnce == 1:
			return []int32{i}
		case len(tasks) < atOnce && !slices.ContainsFunc(tasks, func(j int32) bool { return r.graph.Class(j).Rank == t.Rank }):
			tasks = append(tasks, i)
		}
	}
	return tasks
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
	if r.share == nil && len(tasks) == 1 {
		r.alone(ctx, tasks[0])
		return context.Cause(ctx)
	}
	var all sync.WaitGroup
	for _, i := range tasks {
		if r.share.begins(i) {
			all.Go(func() { r.alone(ctx, i) })
		}
	}
	all.Wait()
	if r.share != nil && ctx.Err() == nil {
		r.settle(ctx, tasks)
	}
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
	s := int(r.graph.Class(i).Stream)
	ended := int(r.head[s])
	r.advance(s, ended)
	from := time.Since(r.begin)
	damage, err := r.perform(ctx, i)
	if err != nil {
		r.cancel(r.failed(i, err))
		return
	}
	r.trace.Ready[i] = from
	r.trace.Spans[i] = graph.Span{Start: from, End: time.Since(r.begin)}
	r.advance(s, ended+1)
	switch {
	case damage == fault.Lost && r.share != nil:
		<-ctx.Done() // nobody hears of its end
	case damage != fault.Lost && r.share == nil:
		close(r.done[i])
	}
}
