package psim

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A device that messages would overfill gets an order that leaves memory for them.
func TestReserveForMessages(t *testing.T) {
	ctx := context.Background()
	c, err := Load("gpipe", "schedule.name=auto", "schedule.stages=4", "schedule.microbatches=16", "batch.global=64", "model.attention=unfused")
	require.NoError(t, err)
	p := &Prediction{Config: c}
	require.NoError(t, p.build(ctx, nil))
	require.NoError(t, p.simulate(ctx))
	most := p.Result.PeakMemory()
	searchedAgain := false
	for percent := int64(99); percent > 50; percent -= 7 {
		next, err := c.With(fmt.Sprintf("machine.compute.memory=%dB", most*percent/100))
		require.NoError(t, err)
		first := &Prediction{Config: next}
		require.NoError(t, first.build(ctx, nil))
		require.NoError(t, first.simulate(ctx))
		settled, err := Predict(ctx, next)
		require.NoError(t, err)
		if !first.Result.FitsMemory && settled.Result.FitsMemory {
			searchedAgain = true
		}
	}
	require.True(t, searchedAgain)
}

// A prediction that searches for an order ends with its context.
func TestInterrupted(t *testing.T) {
	c, err := Load("gpipe")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	auto, err := c.With("schedule.name=auto")
	require.NoError(t, err)
	_, err = Predict(ctx, auto)
	require.ErrorIs(t, err, context.Canceled)
}
