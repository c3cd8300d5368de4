package plans

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
)

// A single rank is searched too: its plan as configured, whatever it holds.
func TestSearchOneRank(t *testing.T) {
	const text = `[schedule]
name = "hanayo"
stages = 1
microbatches = 1
virtual_stages = 4
[times]
forward = [["1ns"], ["1ns"], ["4543768ns"], ["69000000ns"]]
backward = "17478060ns"
p2p = "1ns"
host = "0ns"
`
	c, err := configs.Parse("one.toml", []byte(text))
	require.NoError(t, err)
	own, err := psim.Predict(context.Background(), c)
	require.NoError(t, err)
	found, err := Schedules(context.Background(), c, nil)
	require.NoError(t, err)
	require.Len(t, found.Plans, 1)
	require.Equal(t, own.Result, found.Plans[0].Result)
	require.Equal(t, []string{"schedule.name=hanayo", "schedule.virtual_stages=4"}, found.Plans[0].Set)

	for set, want := range map[string]string{
		"schedule.name=nope":        `unknown schedule "nope"`,
		"schedule.virtual_stages=3": "virtual_stages = 3",
	} {
		c, err := configs.Parse("one.toml", []byte(text), set)
		require.NoError(t, err)
		_, err = Schedules(context.Background(), c, nil)
		require.ErrorContains(t, err, want)
	}
}

// With [times] of one stage a search asks how the same work runs in more stages: it divides the
// times, says so, and its settings give the same prediction.
func TestSearchDividesTimes(t *testing.T) {
	c, err := configs.Parse("times.toml", []byte(`[schedule]
name = "interleaved-1f1b"
stages = 2
virtual_stages = 2
microbatches = 4
[times]
forward = "6ms"
backward_input = "8ms"
backward_weight = "4ms"
p2p = "1ms"
[memory]
activation = "2GB"
freed_by_input_gradient = "1GB"
`))
	require.NoError(t, err)
	found, err := Schedules(context.Background(), c, nil)
	require.NoError(t, err)
	divided := map[int]float64{}
	for _, p := range found.Plans {
		divided[p.VirtualStages] = p.TimesDividedBy
		again, err := c.With(p.Set...)
		require.NoError(t, err)
		predicted, err := psim.Predict(context.Background(), again)
		require.NoError(t, err)
		require.Equal(t, p.StepTime, predicted.Result.StepTime, p.Set)
		require.Equal(t, p.Ranks, predicted.Result.Ranks, p.Set)
		require.Empty(t, predicted.Result.Warnings, p.Set)
		for _, r := range predicted.Result.Ranks {
			require.InDelta(t, 0.144, r.Compute, 1e-12, "the work of a rank stays: %v", p.Set)
		}
	}
	require.Equal(t, map[int]float64{1: 0.5, 2: 0, 4: 2}, divided)
}

// A search ends with its context.
func TestSchedulesInterrupted(t *testing.T) {
	c, err := psim.Load("gpipe")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Schedules(ctx, c, nil)
	require.ErrorIs(t, err, context.Canceled)
}
