package advise_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/advise"
	"psim/results/judged"
)

// TestJudge: a step is judged by where it lies, and what would explain it comes nearer to it.
func TestJudge(t *testing.T) {
	c, err := psim.Load("llama3-70b", "batch.global=64")
	require.NoError(t, err)
	p, err := psim.Predict(t.Context(), c)
	require.NoError(t, err)
	require.NotNil(t, p.Result.Interval)
	step := p.Result.StepTime
	for factor, want := range map[float64]string{1: judged.Inside, 3: judged.Slow, 0.05: judged.Inconsistent} {
		h, err := advise.Judge(t.Context(), p, factor*step, nil)
		require.NoError(t, err)
		require.Equal(t, want, h.Verdict, factor)
		require.Equal(t, want == judged.Inside, len(h.Assumptions) == 0, factor)
		nearest := 0.0
		for _, a := range h.Assumptions {
			require.Equal(t, factor > 1, a.StepTime > step, a.Set)
			off := max(a.StepTime/h.Measured, h.Measured/a.StepTime)
			require.GreaterOrEqual(t, off, nearest)
			require.Less(t, off, max(factor, 1/factor))
			nearest = off
		}
		require.Equal(t, want == judged.Inconsistent, len(h.Changes) == 0, factor)
		likelier := 1.0
		for _, g := range h.Changes {
			require.InEpsilon(t, h.Measured*g.StepTime/step, g.MeasuredStep, 1e-12)
			require.Less(t, g.StepTime, step)
			// A shorter step is faster more often than not, and the shorter it is the more often.
			require.GreaterOrEqual(t, *g.Faster, 0.5-0.01, g.Set)
			require.LessOrEqual(t, *g.Faster, likelier+0.01, g.Set)
			likelier = *g.Faster
		}
	}
}

// TestJudgeWithoutStack: without an interval a tenth counts.
func TestJudgeWithoutStack(t *testing.T) {
	c, err := psim.Load("gpipe")
	require.NoError(t, err)
	p, err := psim.Predict(t.Context(), c)
	require.NoError(t, err)
	for factor, want := range map[float64]string{1.09: judged.Inside, 1.11: judged.Slow, 0.91: judged.Inside, 0.89: judged.Fast} {
		h, err := advise.Judge(t.Context(), p, factor*p.Result.StepTime, nil)
		require.NoError(t, err)
		require.Equal(t, want, h.Verdict, factor)
		require.Nil(t, h.Interval)
		for _, g := range h.Changes {
			require.Nil(t, g.Faster)
		}
	}
}
