package exec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec"
	"psim/exec/programs"
	"psim/schedules/graph"
)

// checked trains a job and compares it with the unsplit run.
func checked(t *testing.T, j exec.Job, steps int, checks ...string) *exec.Verdict {
	m, err := exec.Measure(t.Context(), j, exec.MeasureOptions{
		Devices:      exec.DeviceOptions{Oversubscribe: true},
		TrainOptions: exec.TrainOptions{Warmup: 1, Steps: steps}, Checks: checks,
	})
	require.NoError(t, err)
	return m.Verdict
}

// Rounding that training has amplified fails the check all the same, which says that
// it grew.
func TestGrownRounding(t *testing.T) {
	j := mode{schedule: "gpipe", ranks: 2, replicas: 1}.job(t, miniMLP(t), []int{3, 3, 2})
	j.Optimizer = programs.DefaultOptimizer("sgd")
	j.Optimizer.LearningRate = 2
	v := checked(t, j, 20, exec.CheckWeights, exec.CheckOutput, exec.CheckGradients)
	require.Len(t, v.Failures, 1)
	require.Regexp(t, `^weights differ by \S+ from the unsplit run, and 1e-05 is allowed; the difference grew from \S+e-0[789] after step 1 to \S+ after step 22: `+
		`rounding amplified by training, not a wrong sum; lower the learning rate or take fewer steps$`, v.Failures[0])
	require.Less(t, v.GradientShare, 1e-5)

	j.Optimizer.LearningRate = 0.1
	require.NoError(t, checked(t, j, 20, exec.CheckNames()...).Err(), "as the message says")
}

// A sum that is wrong is there in the first step: here gradients are summed over the
// replicas, and nobody divides them.
func TestWrongSum(t *testing.T) {
	j := mode{schedule: "ddp", ranks: 1, replicas: 2}.job(t, miniMLP(t), []int{2, 2})
	j.Optimizer = programs.DefaultOptimizer("sgd")
	for i := range j.Graph.Classes {
		if j.Graph.Classes[i].Kind == graph.Average {
			j.Graph.Classes[i].Kind = graph.Optimizer
		}
	}
	for _, steps := range []int{1, 20} {
		v := checked(t, j, steps, exec.CheckWeights, exec.CheckGradients)
		require.Len(t, v.Failures, 2)
		for i, what := range []string{"weights", "gradients"} {
			require.Contains(t, v.Failures[i], what+" differ by ")
			require.Contains(t, v.Failures[i], "; in step 1 gradients differ by 100 % of their tensor's largest: a wrong sum, not rounding")
		}
	}
}

// A difference beyond the limit that is there in the first step, of gradients that
// agree, is no growth: neither is claimed.
func TestOrigin(t *testing.T) {
	j := mode{schedule: "gpipe", ranks: 2, replicas: 1}.job(t, miniMLP(t), []int{3, 3, 2})
	j.Optimizer = programs.DefaultOptimizer("sgd")
	j.Optimizer.LearningRate = 1e3
	v := checked(t, j, 1, exec.CheckNames()...)
	require.Regexp(t, `^weights differ by \S+ .*; it is \S+ after step 1 already, where gradients differ by \S+e-0[5-8] % of their tensor's largest$`, v.Failures[0])
}

// A training that makes numbers that are not finite ends, with where that begins.
func TestNotFinite(t *testing.T) {
	j := mode{schedule: "gpipe", ranks: 2, replicas: 1}.job(t, miniMLP(t), []int{3, 3, 2})
	j.Optimizer = programs.DefaultOptimizer("sgd")
	for rate, want := range map[float64]string{
		1e4: `step 4 of 22: 1F0 (forward, stage 1, microbatch 0; rank 1, stream "compute"): the loss is NaN; run again task by task, it begins in step 4: 0F0 (forward, stage 0, microbatch 0; rank 0, stream "compute"): it leaves numbers that are NaN or infinite; a smaller learning rate may help`,
		1e5: `step 3 of 22: 1F0 (forward, stage 1, microbatch 0; rank 1, stream "compute"): the loss is NaN; run again task by task, everything before that is finite; a smaller learning rate may help`,
	} {
		j.Optimizer.LearningRate = rate
		m, err := exec.Measure(t.Context(), j, exec.MeasureOptions{
			Devices: exec.DeviceOptions{Oversubscribe: true}, TrainOptions: exec.TrainOptions{Steps: 22},
		})
		require.EqualError(t, err, want)
		var wrong *exec.NumberError
		require.ErrorAs(t, err, &wrong)
		require.Len(t, m.Traces, wrong.Step, "what was measured before is kept")
	}
}
