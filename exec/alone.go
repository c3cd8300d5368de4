package exec

import (
	"context"
	"errors"
	"runtime"
	"slices"
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
	r := newRunner(g, do, cancel, o)
	next := slices.Clone(r.start[:len(g.Streams)])
	ended := make([]bool, len(g.Tasks))
	for done := 0; done < len(g.Tasks); {
		tasks := r.pick(next, ended)
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
func (r *runner) pick(next []int32, ended []bool) []int32 {
	waiting := map[int32][]int32{} // by group: the tasks of ranks that are ready
	for s := range r.graph.Streams {
		if next[s] == r.start[s+1] {
			continue
		}
		i := r.order[next[s]]
		t := &r.graph.Tasks[i]
		if slices.ContainsFunc(r.graph.Deps(i), func(d int32) bool { return !ended[d] }) {
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

// together performs tasks side by side and waits for all.
func (r *runner) together(ctx context.Context, tasks []int32) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	for _, i := range tasks {
		if !r.share.begins(i) {
			if r.share.ends(i) == r.share.me {
				if err := r.receive(ctx, i); err != nil {
					return err
				}
			}
			continue
		}
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
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return r.settle(ctx, tasks)
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
			return nil, err
		}
		if n > 0 {
			traces = append(traces, trace)
		}
	}
	return traces, t.Reset()
}
