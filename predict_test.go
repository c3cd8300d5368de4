package psim

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results"
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

// The last step of an epoch is a step of the samples that are left, in microbatches of the same
// size; where the schedule cannot run so few, it is a whole one.
func TestLastStep(t *testing.T) {
	for _, x := range []struct {
		config     string
		sets, left []string // settings of both, and of the last step by itself
	}{
		{"gpt2-4090d-data-parallel", []string{"data.samples=5000"}, []string{"batch.global=8"}},
		{"gpt2-4090d-data-parallel", []string{"data.samples=135"}, []string{"batch.global=8"}}, // 4 and 3 samples
		{"gpt2-4090d-pipeline", []string{"data.samples=5000"}, []string{"batch.global=8", "schedule.microbatches=1"}},
		{"gpt2-4090d-pipeline", []string{"data.samples=5010"}, []string{"batch.global=18", "batch.micro=8", "schedule.microbatches=3"}},
		{"gpt2-4090d-pipeline", []string{"data.samples=64"}, nil},
		{"gpipe", []string{"schedule.name=dualpipe", "data.samples=33"}, nil},
	} {
		predict := func(sets ...string) results.Result {
			c, err := Load(x.config, sets...)
			require.NoError(t, err)
			p, err := Estimate(context.Background(), c)
			require.NoError(t, err)
			return p.Result
		}
		r := predict(x.sets...)
		want := r.StepTime
		if x.left != nil {
			want = predict(x.left...).StepTime
			require.InDelta(t, want, r.Epochs.LastTime, 1e-12)
		} else {
			require.Zero(t, r.Epochs.LastTime)
		}
		require.InDelta(t, float64(r.Epochs.Steps-1)*r.StepTime+want, r.Epochs.Time, 1e-9, "%s %v", x.config, x.sets)
	}
}

// A data set in tokens is that of as many samples of the sequence's length.
func TestDataTokens(t *testing.T) {
	epochs := func(sets ...string) *results.Epochs {
		c, err := Load("gpipe", sets...)
		require.NoError(t, err)
		p, err := Estimate(context.Background(), c)
		require.NoError(t, err)
		return p.Result.Epochs
	}
	require.Equal(t, epochs("data.samples=5000"), epochs("data.tokens=5.12M"))
	require.Equal(t, epochs("data.samples=5000"), epochs("data.tokens=5119000"), "the last sample is not full")
	long := epochs("data.tokens=15T")
	require.EqualValues(t, 14_648_437_500, long.Samples)
	require.EqualValues(t, 457_763_672, long.Steps)
	for _, of := range [][]string{{"gpipe", "data.tokens=15T", "data.samples=5"}, {"gpipe", "data.tokens=15t"}, {"vgg16-cpu-ddp", "data.tokens=1T"}} {
		c, err := Load(of[0], of[1:]...)
		if err == nil {
			_, err = Estimate(context.Background(), c)
		}
		require.ErrorContains(t, err, "data.tokens", of)
	}
}
