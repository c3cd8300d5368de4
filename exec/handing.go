package exec

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"psim/exec/programs"
)

// A handing measures what the tasks of a collective take, and what lies between them.
type handing struct {
	run        CollectiveRun
	devices    []*programs.Device
	arithmetic []*programs.Arithmetic

	tasks [][]time.Duration // by task
	runs  []time.Duration
}

// measure times all tasks once more, and then a run in which they only let that time pass.
func (h *handing) measure(ctx context.Context, result *CollectiveTime) error {
	runtime.GC()
	took, err := h.steps(ctx)
	if err != nil {
		return err
	}
	h.tasks = slices.Grow(h.tasks, len(took))[:len(took)]
	result.Alone = make([]time.Duration, len(took))
	for i := range took {
		h.tasks[i] = append(h.tasks[i], took[i])
		result.Alone[i] = middle(h.tasks[i])
	}
	start := time.Now()
	_, err = Run(ctx, result.Graph, func(_ context.Context, i int32) error {
		for begin := time.Now(); time.Since(begin) < result.Alone[i]; {
		}
		return nil
	}, h.run.RunOptions)
	h.runs = append(h.runs, time.Since(start))
	result.Passed, result.Empty, result.Cores = result.Alone, middle(h.runs), h.run.AtOnce
	return err
}

// steps performs the messages of a step on all ranks that have a core at once: first their
// sends, and when these have ended what is done with them. It returns what tasks took.
func (h *handing) steps(ctx context.Context) (took []time.Duration, err error) {
	_, _, err = h.run.once(ctx, h.devices, h.arithmetic, func(ctx context.Context, c *carrier, _ RunOptions) error {
		took = make([]time.Duration, len(c.graph.Tasks))
		errs := make([]error, len(c.graph.Tasks))
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
		for next := 0; next < len(c.moves); {
			sends, takes := h.together(c, next)
			perform(sends)
			if err := errors.Join(append(errs, ctx.Err())...); err != nil {
				return err
			}
			perform(takes)
			next += len(sends)
		}
		return errors.Join(errs...)
	})
	return took, err
}

// together returns the two ends of the next messages that need none of each other, between
// different ranks, as many as there are cores.
func (h *handing) together(c *carrier, next int) (sends, takes []int32) {
	from, to := map[int]bool{}, map[int]bool{}
	for k := next; k < len(c.moves) && len(sends) < max(1, h.run.AtOnce); k++ {
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
