package psim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
)

// Ranks that compute together on cores which share memory are slower than one alone: replicas
// by all of it, the ranks of a pipeline by as much as they overlap, and those that take turns
// not at all. Fewer cores than ranks take turns. With and without a trace that is the same.
func TestCoresShareMemory(t *testing.T) {
	step := func(schedule string, sets ...string) float64 {
		sets = append([]string{"schedule.name=" + schedule, "train.optimizer=sgd", "schedule.microbatches=4"}, sets...)
		if schedule == "ddp" {
			sets = append(sets, "parallel.data=2")
		}
		c, err := psim.Load("exec", sets...)
		require.NoError(t, err)
		p, err := psim.Predict(t.Context(), c)
		require.NoError(t, err)
		e, err := psim.Estimate(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, p.Result.StepTime, e.Result.StepTime)
		return p.Result.StepTime
	}
	cores := func(schedule string, factor string) float64 {
		return step(schedule, "machine.cores.number=2", "machine.cores.forward="+factor, "machine.cores.backward="+factor)
	}
	for _, name := range []string{"ddp", "gpipe", "1f1b", "zbv"} {
		alone := step(name)
		before := cores(name, "1") // sums take a part of the cores
		require.InEpsilon(t, alone, before, 1e-2)
		for _, factor := range []string{"1.1", "1.2", "1.5", "2"} {
			slower := cores(name, factor)
			require.Greater(t, slower, before, "%s %s", name, factor)
			before = slower
		}
		require.LessOrEqual(t, before, 2.02*alone)
		require.Greater(t, step(name, "machine.cores.number=1"), 1.4*alone)
	}
	alone := step("model-parallel")
	require.InEpsilon(t, alone, cores("model-parallel", "1.5"), 1e-3)
}
