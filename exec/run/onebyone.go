package run

import (
	"context"
	"slices"
	"sync"
	"time"

	"psim/internal/fault"
	"psim/schedules/graph"
)

// OneByOne performs the tasks of a well-formed graph as Graph does, but never two at a time,
// except for the ranks of one collective: so every task is measured alone. With o.AtOnce it
// starts tasks of several ranks that compute together, and waits for all of them. It returns
// the first error of a task.
func OneByOne(ctx context.Context, g *graph.Graph, do Do, o Options) (*graph.Trace, error) {
	r, ctx := newRunner(ctx, g, do, o)
	defer r.close()
	defer r.startWatchdog(ctx, o)()
	for done := 0; done < g.Len(); {
		tasks := r.nextTasks(max(1, o.AtOnce))
		if len(tasks) == 0 {
			return r.trace, r.stuckError(0)
		}
		if err := r.performTogether(ctx, tasks); err != nil {
			return r.trace, err
		}
		done += len(tasks)
	}
	return r.trace, nil
}

// performSteps performs tasks step by step, the tasks of a step at the same time. A task must
// depend only on tasks of earlier steps, and no task may be a collective.
func (s *Portion) performSteps(ctx context.Context, steps [][]int32, do Do, o Options) (*graph.Trace, error) {
	r, ctx := newRunner(ctx, s.graph, do, o)
	defer r.close()
	defer r.startWatchdog(ctx, o)()
	for _, tasks := range steps {
		if err := r.performTogether(ctx, tasks); err != nil {
			return r.trace, err
		}
	}
	return r.trace, nil
}

// nextTasks returns the tasks to perform next: one task, all ranks of a collective, or
// computations of up to atOnce ranks.
func (r *runner) nextTasks(atOnce int) (tasks []int32) {
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
		ofRank := func(j int32) bool { return r.graph.Class(j).Rank == t.Rank }
		switch {
		case t.Kind.Collective():
			waiting[t.Peer] = append(waiting[t.Peer], i)
			if len(waiting[t.Peer]) == len(r.graph.Groups[t.Peer]) {
				return waiting[t.Peer]
			}
		case t.Kind.Message() || atOnce == 1:
			return []int32{i}
		case len(tasks) < atOnce && !slices.ContainsFunc(tasks, ofRank):
			tasks = append(tasks, i)
		}
	}
	return tasks
}

// pending reports whether a task has yet to end.
func (r *runner) pending(i int32) bool {
	select {
	case <-r.done[i]:
		return false
	default:
		return true
	}
}

// performTogether performs tasks at the same time and waits for all of them.
func (r *runner) performTogether(ctx context.Context, tasks []int32) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r.setCurrent(tasks)
	defer r.setCurrent(nil)
	if r.portion == nil && len(tasks) == 1 {
		r.performAlone(ctx, tasks[0])
		return context.Cause(ctx)
	}
	var all sync.WaitGroup
	for _, i := range tasks {
		if r.portion.beginsHere(i) {
			all.Go(func() { r.performAlone(ctx, i) })
		}
	}
	all.Wait()
	if r.portion != nil && ctx.Err() == nil {
		r.finishStep(ctx, tasks)
	}
	return context.Cause(ctx)
}

// setCurrent notes which tasks are being performed, for a StuckError.
func (r *runner) setCurrent(tasks []int32) {
	r.mu.Lock()
	r.current = tasks
	r.mu.Unlock()
}

// performAlone performs a task that is ready.
func (r *runner) performAlone(ctx context.Context, i int32) {
	s := int(r.graph.Class(i).Stream)
	ended := int(r.head[s])
	r.advance(s, ended)
	from := time.Since(r.begin)
	damage, err := r.perform(ctx, i)
	if err != nil {
		r.cancel(r.taskFailure(i, err))
		return
	}
	r.trace.Ready[i] = from
	r.trace.Spans[i] = graph.Span{Start: from, End: time.Since(r.begin)}
	r.advance(s, ended+1)
	switch {
	case damage == fault.Lost && r.portion != nil:
		<-ctx.Done() // its end is not announced
	case damage != fault.Lost && r.portion == nil:
		close(r.done[i])
	}
}
