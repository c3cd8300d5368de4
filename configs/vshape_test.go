package configs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

const vTimes = `
[schedule]
name = "zbv"
stages = 2
microbatches = 4
[times]
forward = ["1ms", "2ms", "3ms", "4ms"]
backward_input = "1ms"
backward_weight = "1ms"
`

// A list of times has an entry for each of the 2P stages of a V, whether or not
// virtual_stages says that there are two per rank.
func TestTimesOfAV(t *testing.T) {
	for _, sets := range [][]string{nil, {"schedule.virtual_stages=1"}, {"schedule.virtual_stages=2"}} {
		experiment, s := run(t, parse(t, vTimes, sets...))
		require.Equal(t, []int32{0, 1, 1, 0}, experiment.Graph.Placement.First)
		require.Equal(t, 2, experiment.Graph.Shape.Virtual)
		require.Equal(t, 4*(1+4+2*2)*time.Millisecond, s.Ranks[0].Compute, "stages 0 and 3")
		require.Equal(t, 4*(2+3+2*2)*time.Millisecond, s.Ranks[1].Compute, "stages 1 and 2")
	}
	for set, want := range map[string]string{
		"schedule.virtual_stages=3":       "schedule.virtual_stages = 3: zbv holds 2 stages per rank; remove virtual_stages or set it to 2",
		`times.forward=["1ms", "1ms"]`:    "times.forward = […]: 2 entries for 4 stages",
		"times.pair=both":                 `times.pair = "both": must be one of fused, serial, overlap`,
		"schedule.placement=[0, 1, 0, 1]": "schedule.placement: placement of stage 2 on rank 0: zbv needs it on rank 1",
		"schedule.name=dualpipe":          "times.forward = […]: 4 entries for 2 stages",
	} {
		require.ErrorContains(t, failure(configs.Parse("x.toml", []byte(vTimes), set)), want)
	}
}

// The three readings of a pair take different times.
func TestPairsOfTimes(t *testing.T) {
	text := strings.Replace(vTimes, `["1ms", "2ms", "3ms", "4ms"]`, `"1ms"`, 1)
	for pair, want := range map[string]time.Duration{"fused": 26, "serial": 25, "overlap": 22} {
		_, s := run(t, parse(t, text, "schedule.name=dualpipev", "times.pair="+pair))
		require.Equal(t, want*time.Millisecond, s.Makespan, pair)
	}
	_, s := run(t, parse(t, text, "schedule.name=dualpipev"))
	require.Equal(t, 26*time.Millisecond, s.Makespan, "fused, if nothing is said")
}
