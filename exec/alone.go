package exec

import (
	"context"
	"errors"
	"sync"
	"time"

	"psim/schedules/graph"
)

// OneByOne performs the tasks of a well-formed graph as Run does, but never two
// at a time, except the ranks of one collective: so every task is measured
// alone. It fails with the first task that does.
func OneByOne(ctx context.Context, g *graph.Graph, do Do, o RunOptions) (*graph.Trace, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := newRunner(g, do, cancel)
	if !o.Begin.IsZero() {
		r.begin = o.Begin
	}
	next := append([]int32(nil), r.start[:len(g.Streams)]...)
	ended := make([]bool, len(g.Tasks))
	waiting := make([]int, len(g.Groups)) // by group: ranks that are ready
	for done := 0; done < len(g.Tasks); {
		tasks := r.pick(next, ended, waiting)
		if len(tasks) == 0 {
			return r.trace, errors.New("the graph deadlocks")
		}
		if err := r.together(ctx, tasks); err != nil {
			return r.trace, err
		}
		for _, i := range tasks {
			ended[i] = true
			next[g.Tasks[i].Stream]++
		}
		done += len(tasks)
	}
	return r.trace, nil
}

// pick finds a task that may run, or all ranks of a collective.
func (r *runner) pick(next []int32, ended []bool, waiting []int) []int32 {
	clear(waiting)
	for s := range r.graph.Streams {
		if next[s] == r.start[s+1] {
			continue
		}
		i := r.order[next[s]]
		t := &r.graph.Tasks[i]
		switch {
		case !r.satisfied(i, ended):
		case !t.Kind.Collective():
			return []int32{i}
		default:
			if waiting[t.Peer]++; waiting[t.Peer] == len(r.graph.Groups[t.Peer]) {
				return r.meeting(t.Peer, next, ended)
			}
		}
	}
	return nil
}

func (r *runner) satisfied(i int32, ended []bool) bool {
	for _, d := range r.graph.Deps(i) {
		if !ended[d] {
			return false
		}
	}
	return true
}

// meeting lists the heads of the streams of a group, which are all ready.
func (r *runner) meeting(group int32, next []int32, ended []bool) []int32 {
	var tasks []int32
	for s := range r.graph.Streams {
		if next[s] == r.start[s+1] {
			continue
		}
		i := r.order[next[s]]
		if t := &r.graph.Tasks[i]; t.Kind.Collective() && t.Peer == group && r.satisfied(i, ended) {
			tasks = append(tasks, i)
		}
	}
	return tasks
}

// together performs tasks side by side and waits for all.
func (r *runner) together(ctx context.Context, tasks []int32) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	for _, i := range tasks {
		perform := func() {
			from := time.Since(r.begin)
			if err := r.perform(ctx, i); err != nil {
				r.cancel(&TaskError{r.graph, i, err})
				return
			}
			r.trace.Ready[i] = from
			r.trace.Spans[i] = graph.Span{Start: from, End: time.Since(r.begin)}
		}
		if len(tasks) == 1 {
			perform()
			continue
		}
		all.Go(perform)
	}
	all.Wait()
	return context.Cause(ctx)
}
