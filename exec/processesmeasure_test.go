package exec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/exec"
	"psim/exec/processes"
	"psim/exec/programs"
	"psim/schedules/graph"
)

// measureAmong measures in several processes, and returns what the first has measured and
// all errors.
func measureAmong(t require.TestingT, ctx context.Context, n int, build func() exec.Job, o func(k int) exec.MeasureOptions) (*exec.Measurement, []error) {
	list := worlds(t, n, processes.Options{Stall: 10 * time.Second})
	all, errs, jobs := make([]*exec.Measurement, n), make([]error, n), make([]exec.Job, n)
	for k := range jobs {
		jobs[k] = build()
	}
	each(n, func(k int) {
		options := o(k)
		options.World, options.Devices.Oversubscribe = list[k], true
		all[k], errs[k] = exec.Measure(ctx, jobs[k], options)
	})
	each(n, func(k int) { list[k].Close() })
	require.Equal(t, make([]*exec.Measurement, n-1), all[1:])
	return all[0], errs
}

// What the first of several processes has measured and recorded is what one has, and its
// checks pass.
func TestMeasureAmongProcesses(t *testing.T) {
	n := droppingGPT(t, 0.1)
	for _, m := range []mode{
		{schedule: "1f1b", ranks: 2, replicas: 2, bucket: 3000, overlap: true}, {schedule: "ddp", ranks: 1, replicas: 3, sharded: true},
		{schedule: "zb-h1", ranks: 3, replicas: 1},
	} {
		build := func() exec.Job { return m.job(t, n, []int{2, 2, 2}) }
		o := exec.MeasureOptions{
			Devices: exec.DeviceOptions{Oversubscribe: true}, Data: exec.DataOptions{Validation: held},
			TrainOptions: exec.TrainOptions{Warmup: 1, Steps: 2, Gradients: true}, Repeats: 1, Checks: exec.CheckNames(),
		}
		want, err := exec.Measure(t.Context(), build(), o)
		require.NoError(t, err)
		for _, n := range []int{2, 3} {
			t.Run(fmt.Sprint(m, " on ", n), func(t *testing.T) {
				var profiled atomic.Int32
				o.Profiled = func(exec.Profile) error { profiled.Add(1); return nil }
				got, errs := measureAmong(t, t.Context(), n, build, func(int) exec.MeasureOptions { return o })
				require.Equal(t, make([]error, n), errs)
				require.EqualValues(t, 1, profiled.Load())
				require.NoError(t, got.Verdict.Err())
				require.Equal(t, want.Record, got.Record)
				require.Equal(t, want.Gradients, got.Gradients)
				require.Equal(t, want.GradientCalls, got.GradientCalls)
				require.Len(t, got.Traces, 2)
				sameProfile(t, want.Profile.Alone[0], got.Profile.Alone[0])
				require.Len(t, got.Processes, n)
				var ranks []int
				for k, p := range got.Processes {
					ranks = append(ranks, p.Ranks...)
					require.Equal(t, k > 0, p.ClockResidual > 0)
				}
				require.Equal(t, []int{0, 1, 2, 3}[:m.ranks*m.replicas], ranks)
			})
		}
	}
}

// sameProfile wants the memory of tasks that were measured alone to be the same, and each
// of them to have been measured while no other ran.
func sameProfile(t *testing.T, want, got *graph.Trace) {
	require.Equal(t, want.Persistent, got.Persistent)
	require.Equal(t, peaks(want), peaks(got))
	byStart := make([]int32, len(got.Spans))
	for i := range byStart {
		byStart[i] = int32(i)
	}
	slices.SortStableFunc(byStart, func(a, b int32) int { return int(got.Span(a).Start - got.Span(b).Start) })
	for k, i := range byStart[1:] {
		a, b := byStart[k], i
		require.Positive(t, got.Span(a).Duration())
		if !got.Graph.Task(a).Kind.Collective() || !got.Graph.Task(b).Kind.Collective() {
			require.LessOrEqual(t, got.Span(a).End, got.Span(b).Start, "%s and %s", got.Graph.Describe(a), got.Graph.Describe(b))
		}
	}
}

// What fails in one process ends all, and the first names it.
func TestFailureInAnotherProcess(t *testing.T) {
	n := miniMLP(t)
	m := mode{schedule: "1f1b", ranks: 2, replicas: 1}
	_, errs := measureAmong(t, t.Context(), 2, func() exec.Job { return m.job(t, n, []int{2, 2}) }, func(k int) exec.MeasureOptions {
		o := exec.MeasureOptions{TrainOptions: exec.TrainOptions{Steps: 2}}
		if k == 1 {
			o.Data.Source = "cifar10:nowhere"
		}
		return o
	})
	require.ErrorContains(t, errs[1], "--data cifar10:nowhere: no such folder")
	var abort *processes.AbortError
	require.ErrorAs(t, errs[0], &abort)
	require.ErrorContains(t, errs[0], "process 1 (")
	require.ErrorContains(t, errs[0], "--data cifar10:nowhere: no such folder")
}

// After an interrupt the first has all whole steps.
func TestInterruptAmongProcesses(t *testing.T) {
	n := miniMLP(t)
	m := mode{schedule: "gpipe", ranks: 2, replicas: 1}
	ctx, cancel := context.WithCancel(t.Context())
	got, errs := measureAmong(t, ctx, 2, func() exec.Job { return m.job(t, n, []int{2, 2}) }, func(k int) exec.MeasureOptions {
		o := exec.MeasureOptions{TrainOptions: exec.TrainOptions{Warmup: 1, Steps: 20000}}
		if k == 0 {
			o.Progress = func(step, _ int) {
				if step == 5 {
					cancel()
				}
			}
		}
		return o
	})
	require.ErrorIs(t, errs[0], context.Canceled)
	require.Error(t, errs[1])
	require.GreaterOrEqual(t, len(got.Traces), 4)
	for _, trace := range got.Traces {
		checkRules(t, trace)
	}
}

// runAmong runs a graph in several processes, and returns their errors.
func runAmong(t *testing.T, g *graph.Graph, n int, stall time.Duration, do func(ctx context.Context, k int, i int32) error) []error {
	list := worlds(t, n, processes.Options{})
	errs := make([]error, n)
	each(n, func(k int) {
		ctx, cancel := list[k].Context(t.Context())
		defer cancel()
		_, errs[k] = exec.Run(ctx, g, func(ctx context.Context, i int32) error { return do(ctx, k, i) }, exec.RunOptions{World: list[k], Stall: stall})
		if errs[k] != nil {
			list[k].Abort(errs[k])
		}
	})
	each(n, func(k int) { list[k].Close() })
	return errs
}

// A task that fails ends the run in all processes, with its name; one that hangs does when
// nothing has happened anywhere for long enough, and not before.
func TestFailingTaskAmongProcesses(t *testing.T) {
	g := pipeline(t, "gpipe", 3, 4, 1)
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

// Any way to spread a small network over any number of processes trains the same.
func TestAnyProcessesTrainAsOne(t *testing.T) {
	n := tiedGPT(t)
	rapid.Check(t, func(r *rapid.T) {
		ranks, replicas := rapid.IntRange(1, 3).Draw(r, "ranks"), rapid.IntRange(1, 3).Draw(r, "replicas")
		if ranks*replicas < 2 {
			ranks = 2
		}
		m := mode{
			schedule: rapid.SampledFrom([]string{"gpipe", "1f1b", "zb-h1", "model-parallel"}).Draw(r, "schedule"), ranks: ranks, replicas: replicas,
			bucket: rapid.SampledFrom([]int64{0, 3000, 1 << 30}).Draw(r, "bucket"), overlap: rapid.Bool().Draw(r, "overlap"),
			broadcast: replicas > 1 && rapid.Bool().Draw(r, "broadcast"),
		}
		if m.recompute = programs.SaveAll; rapid.Bool().Draw(r, "recompute") {
			m.recompute = programs.RepeatLayer
		}
		if ranks == 1 && rapid.Bool().Draw(r, "sharded") {
			m.schedule, m.sharded, m.broadcast, m.gloo = "ddp", true, false, rapid.Bool().Draw(r, "gloo")
		}
		sizes := slices.Repeat([]int{rapid.IntRange(1, 2).Draw(r, "samples")}, max(ranks, rapid.IntRange(1, 4).Draw(r, "microbatches")))
		count := rapid.IntRange(2, min(4, ranks*replicas)).Draw(r, "processes")
		build := func() exec.Job { return m.job(t, n, sizes) }
		all := batches(t, n, int(build().Total()), 1)
		want, got := trainAmong(r, 0, build, all), trainAmong(r, count, build, all)
		require.Equal(r, want.losses, got.losses)
		require.Equal(r, want.held, got.held)
		checkRules(r, got.traces[0])
	})
}
