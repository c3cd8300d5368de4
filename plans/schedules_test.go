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
	require.Equal(t, []string{"schedule.name=hanayo", "schedule.virtual_stages=4"}, found.Plans[0].Settings)

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

// A search ends with its context.
func TestSchedulesInterrupted(t *testing.T) {
	c, err := psim.Load("gpipe")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Schedules(ctx, c, nil)
	require.ErrorIs(t, err, context.Canceled)
}
