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
// alone. With o.AtOnce it begins what several ranks compute together, and waits for
// all of that. It fails with the first task that does.
func OneByOne(ctx context.Context, g *graph.Graph, do Do, o RunOptions) (*graph.Trace, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := newRunner(g, do, cancel, o)
	next := slices.Clone(r.start[:len(g.Streams)])
	ended := make([]bool, len(g.Tasks))
	for done := 0; done < len(g.Tasks); {
		tasks := r.pick(next, ended, max(1, o.AtOnce))
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

// pick finds a task that may run, all ranks of a collective, or what so many ranks
// may compute.
func (r *runner) pick(next []int32, ended []bool, atOnce int) (tasks []int32) {
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
		switch {
		case t.Kind.Collective():
			waiting[t.Peer] = append(waiting[t.Peer], i)
			if len(waiting[t.Peer]) == len(r.graph.Groups[t.Peer]) {
				return waiting[t.Peer]
			}
		case t.Kind.Message() || atOnce == 1:
			return []int32{i}
		case len(tasks) < atOnce && !slices.ContainsFunc(tasks, func(j int32) bool { return r.graph.Tasks[j].Rank == t.Rank }):
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

// A Profile has the traces of steps in which tasks were measured: every one alone, and
// in as many others what several ranks compute together, as many as there are cores. A step
// of one kind is followed by one of the other, so that both find the machine alike.
type Profile struct {
	Alone    []*graph.Trace
	Together []*graph.Trace // none of a single rank, or on a single core
}

// Profile measures every task alone, and together with those of other ranks on so many
// cores: it runs steps one task after another, drops the first, which warms up, and
// returns the traces of the others. The trainer then begins anew, with its first parameters.
func (t *Trainer) Profile(ctx context.Context, b Batch, repeats, cores int) (p Profile, err error) {
	resume := holdGarbage()
	defer resume()
	step := func(atOnce int) *graph.Trace {
		var trace *graph.Trace
		if err == nil {
			runtime.GC()
			trace, _, err = t.stepWith(ctx, OneByOne, b, RunOptions{AtOnce: atOnce}, nil)
		}
		return trace
	}
	step(1)
	for range repeats {
		p.Alone = append(p.Alone, step(1))
		if atOnce := min(cores, t.job.Graph.Ranks()); atOnce > 1 {
			p.Together = append(p.Together, step(atOnce))
		}
	}
	if err != nil {
		return Profile{}, err
	}
	return p, t.Reset()
}
