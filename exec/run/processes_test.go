package run_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/cluster"
	"psim/exec/exectest"
	"psim/exec/run"
	"psim/schedules/graph"
)

// runAmong runs a graph in several processes, and returns their errors.
func runAmong(t *testing.T, g *graph.Graph, n int, stall time.Duration,
	do func(ctx context.Context, k int, i int32) error) []error {
	list := exectest.Worlds(t, n, cluster.Options{})
	errs := make([]error, n)
	exectest.Each(n, func(k int) {
		ctx, cancel := list[k].Context(t.Context())
		defer cancel()
		_, errs[k] = run.Graph(ctx, g, func(ctx context.Context, i int32) error { return do(ctx, k, i) },
			run.Options{World: list[k], Stall: stall})
		if errs[k] != nil {
			list[k].Abort(errs[k])
		}
	})
	exectest.Each(n, func(k int) { list[k].Close() })
	return errs
}

// A task that fails ends the run in all processes, with its name. A task that hangs ends it
// when nothing has happened anywhere for the given time, and not before.
func TestFailingTaskAmongProcesses(t *testing.T) {
	g := exectest.Wired(t, "gpipe", graph.Shape{Ranks: 3, Microbatches: 4})
	bad := -1
	for i, task := range g.Tasks() {
		if task.Kind == graph.Backward && task.Rank == 1 {
			bad = int(i)
			break
		}
	}
	broken := errors.New("out of paper")
	errs := runAmong(t, g, 3, 0, func(_ context.Context, k int, i int32) error {
		if int(i) == bad {
			return broken
		}
		return nil
	})
	require.ErrorIs(t, errs[1], broken)
	require.ErrorContains(t, errs[0], g.Describe(int32(bad)))
	errs = runAmong(t, g, 3, 1500*time.Millisecond, func(ctx context.Context, k int, i int32) error {
		if int(i) == bad {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	for _, err := range errs[:2] {
		require.ErrorContains(t, err, "stuck: nothing has begun or ended for 1.5s")
	}
}
