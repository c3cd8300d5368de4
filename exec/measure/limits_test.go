package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/exectest"
	"psim/exec/kernels"
	"psim/exec/measure"
	"psim/exec/train"
	"psim/schedules/graph"
)

// checked trains a job and compares it with the unsplit run.
func checked(t *testing.T, j train.Job, steps int, checks ...string) *measure.Verdict {
	m, err := measure.Job(t.Context(), j, measure.Options{
		Devices: exectest.Options(),
		Train:   train.Options{Warmup: 1, Steps: steps}, Checks: checks,
	})
	require.NoError(t, err)
	return m.Verdict
}

// Rounding that training has amplified fails the check, and the failure says that it grew.
func TestGrownRounding(t *testing.T) {
	j := exectest.Spread{Schedule: "gpipe", Ranks: 2, Replicas: 1}.Job(t, exectest.MiniMLP(t), []int{3, 3, 2})
	j.Optimizer = kernels.DefaultOptimizer("sgd")
	j.Optimizer.LearningRate = 2
	v := checked(t, j, 20, measure.CheckWeights, measure.CheckOutput, measure.CheckGradients)
	require.Len(t, v.Failures, 1)
	require.Regexp(t, `^weights differ by \S+ from the unsplit run, and 1e-05 is allowed; the difference grew from \S+e-0[789] after step 1 to \S+ after step 22: `+
		`rounding amplified by training, not a wrong sum; lower the learning rate or take fewer steps$`, v.Failures[0])
	require.Less(t, v.GradientShare, 1e-5)

	j.Optimizer.LearningRate = 0.1
	require.NoError(t, checked(t, j, 20, measure.CheckNames()...).Err(), "as the message says")
}

// A wrong sum shows in the first step: here gradients are summed over the replicas and not
// divided.
func TestWrongSum(t *testing.T) {
	j := exectest.Spread{Schedule: "ddp", Ranks: 1, Replicas: 2}.Job(t, exectest.MiniMLP(t), []int{2, 2})
	j.Optimizer = kernels.DefaultOptimizer("sgd")
	for i := range j.Graph.Classes {
		if j.Graph.Classes[i].Kind == graph.Average {
			j.Graph.Classes[i].Kind = graph.Optimizer
		}
	}
	for _, steps := range []int{1, 20} {
		v := checked(t, j, steps, measure.CheckWeights, measure.CheckGradients)
		require.Len(t, v.Failures, 2)
		for i, what := range []string{"weights", "gradients"} {
			require.Contains(t, v.Failures[i], what+" differ by ")
			require.Contains(t, v.Failures[i],
				"; in step 1 gradients differ by 100 % of their tensor's largest: a wrong sum, not rounding")
		}
	}
}

// If a difference exceeds the limit in the first step although the gradients agree, the failure
// claims neither growth nor a wrong sum.
func TestOrigin(t *testing.T) {
	j := exectest.Spread{Schedule: "gpipe", Ranks: 2, Replicas: 1}.Job(t, exectest.MiniMLP(t), []int{3, 3, 2})
	j.Optimizer = kernels.DefaultOptimizer("sgd")
	j.Optimizer.LearningRate = 1e3
	v := checked(t, j, 1, measure.CheckNames()...)
	require.Regexp(t, `^weights differ by \S+ .*; it is \S+ after step 1 already, where gradients differ by \S+e-0[5-8] % of their tensor's largest$`, v.Failures[0])
}

// A training that makes numbers that are not finite ends, and says where they begin.
func TestNotFinite(t *testing.T) {
	j := exectest.Spread{Schedule: "gpipe", Ranks: 2, Replicas: 1}.Job(t, exectest.MiniMLP(t), []int{3, 3, 2})
	j.Optimizer = kernels.DefaultOptimizer("sgd")
	for rate, want := range map[float64]string{
		1e4: `step 4 of 22: 1F0 (forward, stage 1, microbatch 0; rank 1, stream "compute"): the loss is NaN; run again task by task, it begins in step 4: 0F0 (forward, stage 0, microbatch 0; rank 0, stream "compute"): it leaves numbers that are NaN or infinite; a smaller learning rate may help`,
		1e5: `step 3 of 22: 1F0 (forward, stage 1, microbatch 0; rank 1, stream "compute"): the loss is NaN; run again task by task, everything before that is finite; a smaller learning rate may help`,
	} {
		j.Optimizer.LearningRate = rate
		m, err := measure.Job(t.Context(), j, measure.Options{
			Devices: exectest.Options(), Train: train.Options{Steps: 22},
		})
		require.EqualError(t, err, want)
		var wrong *train.NumberError
		require.ErrorAs(t, err, &wrong)
		require.Len(t, m.Traces, wrong.Step, "what was measured before is kept")
	}
}
