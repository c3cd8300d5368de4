package collectives

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"psim/exec/run"
	"psim/internal/units"
)

// taskTimes measures how long the tasks of a collective take, and what passes between them.
type taskTimes struct {
	benchmark Benchmark
	ranks     Ranks

	tasks    [][]time.Duration // by task
	idleRuns []time.Duration   // whose tasks compute nothing
}

// measure times a run whose tasks only wait for what they took so far (over several processes
// nothing, because no process knows all times), and then times all tasks once more. That run
// begins as those of the collective do, after a collection. There is one between two uses of
// the tasks; what is pooled for the next use survives one collection, but not two.
func (t *taskTimes) measure(ctx context.Context, result *BenchmarkResult) error {
	if t.tasks == nil {
		if err := t.measureTasks(ctx, result); err != nil {
			return err
		}
	}
	runtime.GC()
	ran, err := t.benchmark.Timed(ctx, func() error {
		_, err := run.Graph(ctx, result.Graph, func(_ context.Context, i int32) error {
			for begin := time.Now(); result.Passed != nil && time.Since(begin) < result.Passed[i]; {
			}
			return nil
		}, t.benchmark.Options)
		return err
	})
	if err != nil {
		return err
	}
	t.idleRuns = append(t.idleRuns, ran)
	result.Empty = units.Median(t.idleRuns)
	return t.measureTasks(ctx, result)
}

// measureTasks times all tasks once more.
func (t *taskTimes) measureTasks(ctx context.Context, result *BenchmarkResult) error {
	measure := t.inProcess
	if t.benchmark.World != nil {
		measure = func(ctx context.Context) ([]time.Duration, error) { return t.overProcesses(ctx, result) }
	}
	took, err := measure(ctx)
	if err != nil {
		return err
	}
	t.tasks = slices.Grow(t.tasks, len(took))[:len(took)]
	result.Alone = make([]time.Duration, len(took))
	for i := range took {
		t.tasks[i] = append(t.tasks[i], took[i])
		result.Alone[i] = units.Median(t.tasks[i])
	}
	if t.benchmark.World == nil {
		result.Passed, result.Cores = result.Alone, t.benchmark.AtOnce
	}
	return nil
}

// overProcesses times the tasks one step after another over several processes. Messages between
// processes count only for the time by which they take longer than empty ones.
func (t *taskTimes) overProcesses(ctx context.Context, result *BenchmarkResult) (took []time.Duration, err error) {
	_, _, err = t.benchmark.runOnce(ctx, t.ranks, func(ctx context.Context, c *Mover, o run.Options) error {
		trace, empty, err := c.timeSteps(ctx, messageSteps(c, t.benchmark.Call.Ranks), o)
		if err != nil {
			return err
		}
		for i := range trace.Spans {
			took = append(took, max(0, trace.Spans[i].Duration()-empty[i]))
		}
		result.Processes = run.Participants(o.World, o.Portion.Residual)
		return nil
	})
	return took, err
}

// inProcess performs the messages of a step on all ranks that have a core at the same time:
// first their sends, and then their receiving ends. It returns the times of the tasks.
func (t *taskTimes) inProcess(ctx context.Context) (took []time.Duration, err error) {
	_, _, err = t.benchmark.runOnce(ctx, t.ranks, func(ctx context.Context, c *Mover, _ run.Options) error {
		took = make([]time.Duration, c.Graph.Len())
		errs := make([]error, c.Graph.Len())
		perform := func(tasks []int32) {
			var all sync.WaitGroup
			for _, i := range tasks {
				all.Go(func() {
					start := time.Now()
					errs[i] = c.Do(ctx, i)
					took[i] = time.Since(start)
				})
			}
			all.Wait()
		}
		for _, tasks := range messageSteps(c, max(1, t.benchmark.AtOnce)) {
			if err := errors.Join(append(errs, ctx.Err())...); err != nil {
				return err
			}
			perform(tasks)
		}
		return errors.Join(errs...)
	})
	return took, err
}

// messageSteps lists the tasks step by step: the sends of up to most messages that are
// independent and between different ranks, then their receiving ends, and so on to the last.
func messageSteps(c *Mover, most int) (steps [][]int32) {
	for next := 0; next < len(c.moves); {
		sends, takes := nextMessages(c, next, most)
		steps, next = append(steps, sends, takes), next+len(sends)
	}
	return steps
}

// nextMessages returns the two ends of the next messages.
func nextMessages(c *Mover, next, most int) (sends, takes []int32) {
	from, to := map[int]bool{}, map[int]bool{}
	for k := next; k < len(c.moves) && len(sends) < most; k++ {
		m, send := c.moves[k], int32(2*k)
		needs := slices.ContainsFunc(c.Graph.Deps(send), func(d int32) bool { return d >= int32(2*next) })
		if needs || from[m.From] || to[m.To] {
			break
		}
		from[m.From], to[m.To] = true, true
		sends, takes = append(sends, send), append(takes, send+1)
	}
	return sends, takes
}
