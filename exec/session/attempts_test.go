package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/measure"
	"psim/results"
)

// Probes take 1 ms at best; one was slower on average, and one at best.
func TestSteadinessOfProbes(t *testing.T) {
	ms := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
	m := results.NewMeasurement(9*time.Second, 11*time.Second)
	s := steadiness(m.StepTimeStd/m.StepTimeMean,
		[]measure.Probe{{Fastest: ms(1), Mean: ms(1.1)}, {Fastest: ms(1.05), Mean: ms(1.6)},
			{Fastest: ms(1.2), Mean: ms(1.2)}})
	require.InDelta(t, m.StepTimeStd/10, s.Spread, 1e-12)
	require.InDelta(t, 0.6, s.Slowdown, 1e-9)
	require.InDelta(t, 0.2, s.Change, 1e-9)
	require.Nil(t, steadiness(0, nil))
	require.Zero(t, steadiness(0, []measure.Probe{{Fastest: ms(1), Mean: ms(1)}}).Score())
}

// ran returns a run of one step, which was disturbed or not.
func ran(step time.Duration, spread float64) *Trial {
	m := results.NewMeasurement(step)
	m.Steadiness = &results.Steadiness{Spread: spread}
	m.Disturbed = m.Steadiness.Score() > 1
	return &Trial{Result: results.Result{StepTime: step.Seconds(), Measurement: m,
		Predicted: &results.Result{StepTime: 1}}}
}

// A disturbed run is repeated, up to a number of tries, and the least disturbed one counts; all
// are kept.
func TestLeastDisturbed(t *testing.T) {
	for _, c := range []struct {
		most    int
		spreads []float64
		made    int
		counts  int // the step of the run that counts, in seconds
	}{
		{0, []float64{0.5}, 1, 1},
		{1, []float64{0.5}, 1, 1},
		{3, []float64{0.01}, 1, 1},
		{3, []float64{0.5, 0.02}, 2, 2},
		{3, []float64{0.5, 0.2, 0.3}, 3, 2},
		{2, []float64{0.2, 0.5}, 2, 1},
	} {
		made := 0
		r, err := leastDisturbed(c.most, func() (*Trial, error) {
			made++
			return ran(time.Duration(made)*time.Second, c.spreads[made-1]), nil
		})
		require.NoError(t, err)
		require.Equal(t, c.made, made)
		require.Equal(t, c.made, r.Result.RunsMade)
		require.Equal(t, float64(c.counts), r.Result.StepTime)
		if c.made == 1 {
			require.Nil(t, r.Result.Attempts)
			continue
		}
		require.Len(t, r.Result.Attempts, c.made)
		for i, a := range r.Result.Attempts {
			require.Equal(t, []float64{float64(i + 1)}, a.Steps)
			require.Equal(t, c.spreads[i], a.Steadiness.Spread)
			require.Equal(t, c.spreads[i] > 0.08, a.Disturbed)
		}
	}
}

// What was measured before a run failed counts; of a first run, that is the measured part.
func TestLeastDisturbedFails(t *testing.T) {
	runs := 0
	r, err := leastDisturbed(3, func() (*Trial, error) {
		if runs++; runs == 2 {
			return ran(2*time.Second, 0), context.Canceled
		}
		return ran(time.Second, 0.5), nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1.0, r.Result.StepTime)
	require.Equal(t, 1, r.Result.RunsMade)

	r, err = leastDisturbed(3, func() (*Trial, error) { return ran(time.Second, 0.5), context.Canceled })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1.0, r.Result.StepTime)

	failed := errors.New("no device")
	r, err = leastDisturbed(3, func() (*Trial, error) { return nil, failed })
	require.ErrorIs(t, err, failed)
	require.Nil(t, r)
}
