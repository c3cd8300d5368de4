package psim_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/results"
)

// The broadcast before the first step makes that step longer, and nothing else: rates and
// epochs are those of the steps after it.
func TestStartupIsLeftOut(t *testing.T) {
	result := func(sets ...string) results.Result {
		c, err := psim.Load("gpt2-4090d-data-parallel", append(sets, "data.samples=5000")...)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		require.NoError(t, err)
		return p.Result
	}
	later := result()
	require.Zero(t, later.Startup)
	for _, bucket := range []string{"25MB", "tensor"} {
		later, first := result("parallel.bucket="+bucket), result("parallel.bucket="+bucket, "parallel.broadcast=true")
		require.Positive(t, first.Startup)
		require.InDelta(t, later.StepTime+first.Startup, first.StepTime, 1e-9)
		require.InEpsilon(t, later.Throughput.Samples, first.Throughput.Samples, 1e-9)
		require.InEpsilon(t, later.MFU, first.MFU, 1e-9)
		require.InEpsilon(t, later.Epochs.Time, first.Epochs.Time, 1e-9)
		require.Equal(t, later.PeakMemory(), first.PeakMemory())
		groups := 0
		for _, g := range first.Groups {
			if g.Collective == "broadcast" {
				groups++
				require.Equal(t, 4*first.Parameters, g.Bytes)
			}
		}
		require.Equal(t, 1, groups)
	}
}
