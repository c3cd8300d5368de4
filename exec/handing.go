package exec

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"psim/exec/programs"
	"psim/internal/units"
)

// A handing measures what the tasks of a collective take, and what lies between them.
type handing struct {
	run        CollectiveRun
	devices    []*programs.Device
	arithmetic []*programs.Arithmetic

	tasks [][]time.Duration // by task
	runs  []time.Duration
}

// measure times a run whose tasks only let pass what they took so far, or over processes
// nothing, since nobody knows all times; and then all tasks once more. That run begins as those
// of the collective do, with garbage collected, which happens once between two uses of the
// tasks: what is kept for the next use outlives one collection, not two.
func (h *handing) measure(ctx context.Context, result *CollectiveTime) error {
	if h.tasks == nil {
		if err := h.times(ctx, result); err != nil {
			return err
		}
	}
	runtime.GC()
	ran, err := h.run.timed(ctx, func() error {
		_, err := Run(ctx, result.Graph, func(_ context.Context, i int32) error {
			for begin := time.Now(); result.Passed != nil && time.Since(begin) < result.Passed[i]; {
			}
			return nil
		}, h.run.RunOptions)
		return err
	})
	if err != nil {
		return err
	}
	h.runs = append(h.runs, ran)
	result.Empty = units.Median(h.runs)
	return h.times(ctx, result)
}

// times measures all tasks once more.
func (h *handing) times(ctx context.Context, result *CollectiveTime) error {
	measure := h.steps
	if h.run.World != nil {
		measure = func(ctx context.Context) ([]time.Duration, error) { return h.apart(ctx, result) }
	}
	took, err := measure(ctx)
	if err != nil {
		return err
	}
	h.tasks = slices.Grow(h.tasks, len(took))[:len(took)]
	result.Alone = make([]time.Duration, len(took))
	for i := range took {
		h.tasks[i] = append(h.tasks[i], took[i])
		result.Alone[i] = units.Median(h.tasks[i])
	}
	if h.run.World == nil {
		result.Passed, result.Cores = result.Alone, h.run.AtOnce
	}
	return nil
}

// apart does what steps does, over several processes: of messages between them it returns
// what they take longer than empty ones.
func (h *handing) apart(ctx context.Context, result *CollectiveTime) (took []time.Duration, err error) {
	_, _, err = h.run.once(ctx, h.devices, h.arithmetic, func(ctx context.Context, c *carrier, o RunOptions) error {
		trace, empty, err := c.apart(ctx, inStepsOf(c, h.run.Call.Ranks), o)
		if err != nil {
			return err
		}
		for i := range trace.Spans {
			took = append(took, max(0, trace.Spans[i].Duration()-empty[i]))
		}
		result.Processes = members(o.World, o.part.residual)
		return nil
	})
	return took, err
}

// steps performs the messages of a step on all ranks that have a core at once: first their
// sends, and when these have ended what is done with them. It returns what tasks took.
func (h *handing) steps(ctx context.Context) (took []time.Duration, err error) {
	_, _, err = h.run.once(ctx, h.devices, h.arithmetic, func(ctx context.Context, c *carrier, _ RunOptions) error {
		took = make([]time.Duration, c.graph.Len())
		errs := make([]error, c.graph.Len())
		perform := func(tasks []int32) {
			var all sync.WaitGroup
			for _, i := range tasks {
				all.Go(func() {
					start := time.Now()
					errs[i] = c.do(ctx, i)
					took[i] = time.Since(start)
				})
			}
			all.Wait()
		}
		for _, tasks := range inStepsOf(c, max(1, h.run.AtOnce)) {
			if err := errors.Join(append(errs, ctx.Err())...); err != nil {
				return err
			}
			perform(tasks)
		}
		return errors.Join(errs...)
	})
	return took, err
}

// inStepsOf lists the sends of messages that need none of each other, between different ranks,
// at most so many at once, then what is done with them, and so on to the last.
func inStepsOf(c *carrier, most int) (steps [][]int32) {
	for next := 0; next < len(c.moves); {
		sends, takes := together(c, next, most)
		steps, next = append(steps, sends, takes), next+len(sends)
	}
	return steps
}

// together returns the two ends of the next messages.
func together(c *carrier, next, most int) (sends, takes []int32) {
	from, to := map[int]bool{}, map[int]bool{}
	for k := next; k < len(c.moves) && len(sends) < most; k++ {
		m, send := c.moves[k], int32(2*k)
		needs := slices.ContainsFunc(c.graph.Deps(send), func(d int32) bool { return d >= int32(2*next) })
		if needs || from[m.From] || to[m.To] {
			break
		}
		from[m.From], to[m.To] = true, true
		sends, takes = append(sends, send), append(takes, send+1)
	}
	return sends, takes
}
