package psim

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

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
	own, err := Predict(context.Background(), c)
	require.NoError(t, err)
	found, err := Search(context.Background(), c, nil)
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
		_, err = Search(context.Background(), c, nil)
		require.ErrorContains(t, err, want)
	}
}
