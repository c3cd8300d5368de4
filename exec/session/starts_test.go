package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/measure"
	"psim/results"
)

// Every start is compared, and all are counted.
func TestStarts(t *testing.T) {
	c, _, err := Load("exec-mlp", 2, tiny()...)
	require.NoError(t, err)
	s := &Session{Options: options(2)}
	s.Starts, s.Measure.Checks = 3, []string{measure.CheckOutput, measure.CheckWeights}
	var stages []string
	s.Measure.Stage = func(what string) { stages = append(stages, what) }
	require.NoError(t, s.Run(t.Context(), c, c))
	require.Contains(t, stages, "gpipe: start 3 of 3: step 1 of 4")
	for _, r := range s.Runs {
		require.Equal(t, &results.CheckedStarts{Count: 3, Passed: 3}, r.Result.Checks.Starts)
		require.NotNil(t, r.Result.Checks.Weights)
		require.Nil(t, r.Result.Checks.Gradients)
	}
	require.NoError(t, s.Err())
	require.Equal(t, results.CheckedStarts{Count: 6, Passed: 6}, *s.Result().Checks.Starts)
	require.Equal(t, "passed in 6 of 6 starts", s.Result().Checks.Verdict())
}

// The differences of several starts are the largest, and the first start that failed is named.
func TestCountStart(t *testing.T) {
	start := func(output float64, failures ...string) (*measure.Verdict, *results.Checks) {
		return &measure.Verdict{Failures: failures}, &results.Checks{Outputs: &output, Passed: len(failures) == 0}
	}
	for _, failing := range []int{0, 1, 3} {
		r := &Trial{}
		for n := 1; n <= 4; n++ {
			v, c := start(float64(n))
			if n == failing || failing == 3 && n == 4 {
				v, c = start(10-float64(n), "the output differs")
			}
			if n == 1 {
				r.Verdict, r.Result = v, results.Result{Measurement: &results.Measurement{Checks: c}}
			}
			r.countStart(n, 4, v, c)
		}
		checks := r.Result.Checks
		switch failing {
		case 0:
			require.NoError(t, r.Verdict.Err())
			require.Equal(t, "passed in 4 of 4 starts", checks.Verdict())
			require.Equal(t, 4.0, *checks.Outputs)
		case 1:
			require.EqualError(t, r.Verdict.Err(), "a check failed: in 1 of 4 starts, first in start 1 of 4: the output differs")
			require.Equal(t, "FAILED, passed in 3 of 4 starts", checks.Verdict())
			require.Equal(t, 9.0, *checks.Outputs)
		case 3:
			require.EqualError(t, r.Verdict.Err(), "a check failed: in 2 of 4 starts, first in start 3 of 4: the output differs")
			require.Equal(t, "FAILED, passed in 2 of 4 starts", checks.Verdict())
			require.Equal(t, 7.0, *checks.Outputs)
		}
	}
	(*Trial)(nil).countStart(2, 4, nil, nil) // at a process that keeps nothing
}
