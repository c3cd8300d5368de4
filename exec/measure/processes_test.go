package measure_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/cluster"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/train"
	"psim/schedules/graph"
)

// measureAmong measures in several processes. It returns the findings of the first and all
// errors.
func measureAmong(t require.TestingT, ctx context.Context, n int, build func() train.Job,
	o func(k int) measure.Options) (*measure.Findings, []error) {
	list := exectest.Worlds(t, n, cluster.Options{Stall: 10 * time.Second})
	all, errs, jobs := make([]*measure.Findings, n), make([]error, n), make([]train.Job, n)
	for k := range jobs {
		jobs[k] = build()
	}
	exectest.Each(n, func(k int) {
		options := o(k)
		options.Train.Run.World, options.Devices.Oversubscribe = list[k], true
		all[k], errs[k] = measure.Job(ctx, jobs[k], options)
	})
	exectest.Each(n, func(k int) { list[k].Close() })
	require.Equal(t, make([]*measure.Findings, n-1), all[1:])
	return all[0], errs
}

// What the first of several processes has measured and recorded equals the findings of a single
// process, and its checks pass.
func TestMeasureAmongProcesses(t *testing.T) {
	n := exectest.DroppingGPT(t, 0.1)
	for _, m := range []exectest.Spread{
		{Schedule: "1f1b", Ranks: 2, Replicas: 2, Bucket: 3000, Overlap: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true},
		{Schedule: "zb-h1", Ranks: 3, Replicas: 1},
	} {
		build := func() train.Job { return m.Job(t, n, []int{2, 2, 2}) }
		o := measure.Options{
			Devices: exectest.Options(), Data: data.Options{Validation: 7},
			Train: train.Options{Warmup: 1, Steps: 2, Gradients: true}, Repeats: 1, Checks: measure.CheckNames(),
		}
		want, err := measure.Job(t.Context(), build(), o)
		require.NoError(t, err)
		for _, n := range []int{2, 3} {
			t.Run(fmt.Sprint(m, " on ", n), func(t *testing.T) {
				var profiled atomic.Int32
				o.Profiled = func(measure.Profile) error { profiled.Add(1); return nil }
				got, errs := measureAmong(t, t.Context(), n, build, func(int) measure.Options { return o })
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
				require.Equal(t, []int{0, 1, 2, 3}[:m.Ranks*m.Replicas], ranks)
			})
		}
	}
}

// sameProfile checks that tasks that were measured alone have the same memory, and that no two
// of them ran at once.
func sameProfile(t *testing.T, want, got *graph.Trace) {
	require.Equal(t, want.Persistent, got.Persistent)
	require.Equal(t, exectest.Peaks(want), exectest.Peaks(got))
	byStart := make([]int32, len(got.Spans))
	for i := range byStart {
		byStart[i] = int32(i)
	}
	slices.SortStableFunc(byStart, func(a, b int32) int { return int(got.Span(a).Start - got.Span(b).Start) })
	for k, i := range byStart[1:] {
		a, b := byStart[k], i
		require.Positive(t, got.Span(a).Duration())
		if !got.Graph.Class(a).Kind.Collective() || !got.Graph.Class(b).Kind.Collective() {
			require.LessOrEqual(t, got.Span(a).End, got.Span(b).Start, "%s and %s", got.Graph.Describe(a),
				got.Graph.Describe(b))
		}
	}
}

// A failure in one process ends all, and the first names that process.
func TestFailureInAnotherProcess(t *testing.T) {
	n := exectest.MiniMLP(t)
	m := exectest.Spread{Schedule: "1f1b", Ranks: 2, Replicas: 1}
	_, errs := measureAmong(t, t.Context(), 2, func() train.Job { return m.Job(t, n, []int{2, 2}) },
		func(k int) measure.Options {
			o := measure.Options{Train: train.Options{Steps: 2}}
			if k == 1 {
				o.Data.Source = "cifar10:nowhere"
			}
			return o
		})
	require.ErrorContains(t, errs[1], "--data cifar10:nowhere: no such folder")
	var abort *cluster.AbortError
	require.ErrorAs(t, errs[0], &abort)
	require.ErrorContains(t, errs[0], "process 1 (")
	require.ErrorContains(t, errs[0], "--data cifar10:nowhere: no such folder")
}

// After an interrupt the first process has all complete steps.
func TestInterruptAmongProcesses(t *testing.T) {
	n := exectest.MiniMLP(t)
	m := exectest.Spread{Schedule: "gpipe", Ranks: 2, Replicas: 1}
	ctx, cancel := context.WithCancel(t.Context())
	got, errs := measureAmong(t, ctx, 2, func() train.Job { return m.Job(t, n, []int{2, 2}) },
		func(k int) measure.Options {
			o := measure.Options{Train: train.Options{Warmup: 1, Steps: 20000}}
			if k == 0 {
				o.Train.Progress = func(step, _ int) {
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
		exectest.CheckRules(t, trace)
	}
}
