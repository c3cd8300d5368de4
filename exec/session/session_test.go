package session

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/train"
	"psim/reports"
	"psim/results"
)

// tiny makes the network of an example so small that a test can train it.
func tiny() []string {
	return []string{"model.layers=4", "model.hidden=8", "batch.global=16"}
}

// options are for two devices that may share a core.
func options(steps int) Options {
	return Options{Seed: 1, Measure: measure.Options{
		Devices: exectest.Options(),
		Train:   train.Options{Warmup: 1, Steps: steps}, Repeats: 1,
	}}
}

// What was measured before an interrupt is kept, and marked.
func TestInterrupted(t *testing.T) {
	c, _, err := Load("exec-mlp", 2, tiny()...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Session{Options: options(20)}
	s.Measure.Stage = func(what string) {
		if strings.Contains(what, "step 5 of") {
			cancel()
		}
	}
	require.ErrorIs(t, s.Run(ctx, c), context.Canceled)
	folder := t.TempDir()
	require.NoError(t, s.Save(context.Background(), reports.RunFolder(folder, results.Measured)))
	file, err := os.Open(filepath.Join(folder, "result.json"))
	require.NoError(t, err)
	defer file.Close()
	r, err := results.ReadResult(file)
	require.NoError(t, err)
	require.True(t, r.Partial)
	require.Len(t, r.Steps, 3)
}

// A session that ends before everything was run is marked, even if the run itself was complete.
func TestInterruptedBetween(t *testing.T) {
	c, _, err := Load("exec-mlp", 2, tiny()...)
	require.NoError(t, err)
	other, _, err := Load("exec-mlp", 2, append(tiny(), "schedule.name=1f1b")...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Session{Options: options(2)}
	s.Measure.Stage = func(what string) {
		if strings.HasPrefix(what, "1f1b: ") {
			cancel()
		}
	}
	require.ErrorIs(t, s.Run(ctx, c, other), context.Canceled)
	require.Len(t, s.Runs, 1)
	require.False(t, s.Main().Result.Partial)
	require.True(t, s.Result().Partial)
}

// Missing settings are refused before anything is trained, and an empty session has no result.
func TestZeroSession(t *testing.T) {
	c, _, err := Load("exec-mlp", 2, tiny()...)
	require.NoError(t, err)
	var s Session
	require.ErrorContains(t, s.Run(t.Context(), c), "0 repeats")
	s.Measure.Repeats = 1
	require.ErrorContains(t, s.Run(t.Context(), c), "0 steps")
	require.Nil(t, s.Main())
	require.Zero(t, s.Result().Name)
}
