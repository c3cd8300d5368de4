package psim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
)

// A setting that the program has a flag for, and that the configuration does not say, widens the interval towards the
// step with it. Given, it is no longer open.
func TestUnsaid(t *testing.T) {
	estimate := func(sets ...string) *psim.Prediction {
		c, err := psim.Load("megatron-deepspeed", append([]string{"train.stack=megatron-deepspeed"}, sets...)...)
		require.NoError(t, err)
		p, err := psim.Estimate(t.Context(), c)
		require.NoError(t, err)
		return p
	}
	p, flash := estimate(), estimate(`model.attention=flash`)
	width := func(p *psim.Prediction) float64 { return math.Log(p.Result.Interval.High / p.Result.Interval.Low) }
	before, high := width(p), p.Result.Interval.High
	require.NoError(t, p.AddUnsaid(t.Context()))
	require.Len(t, p.Result.Interval.Unsaid, 1)
	require.Equal(t, []string{`model.attention="flash"`}, p.Result.Interval.Unsaid[0].Set)
	require.Equal(t, flash.Result.StepTime, p.Result.Interval.Unsaid[0].StepTime)
	require.Greater(t, width(p), before)
	require.Equal(t, flash.Result.StepTime > p.Result.StepTime, p.Result.Interval.High > high)
	require.NoError(t, flash.AddUnsaid(t.Context()))
	require.Empty(t, flash.Result.Interval.Unsaid)
	require.Equal(t, p.Result.Interval.Coverage, flash.Result.Interval.Coverage)
}

// Whether a network has scans is read from its operations. Fewer than four sources published such runs.
func TestScansHaveNoInterval(t *testing.T) {
	c, err := psim.Load("nemotron-h-56b", "train.stack=megatron-te", "machine.device=h100-80gb-sxm")
	require.NoError(t, err)
	p, err := psim.Estimate(t.Context(), c)
	require.NoError(t, err)
	require.Nil(t, p.Result.Interval)
	require.True(t, p.Conditions().Scans)
	require.Contains(t, p.Result.IntervalMissing, "networks with scans")
}

// Without a stack there is no interval, and nothing to say about it; without evidence there is a reason.
func TestNoInterval(t *testing.T) {
	for name, missing := range map[string]string{"gpipe": "", "llama3-70b": "no published run on l4 is compared with predictions"} {
		var sets []string
		if missing != "" {
			sets = []string{"machine.device=l4"}
		}
		c, err := psim.Load(name, sets...)
		require.NoError(t, err)
		p, err := psim.Estimate(t.Context(), c)
		require.NoError(t, err)
		require.NoError(t, p.AddUnsaid(t.Context()))
		require.Nil(t, p.Result.Interval)
		require.Equal(t, missing, p.Result.IntervalMissing)
	}
}
