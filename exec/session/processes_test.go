package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/cluster"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/run"
	"psim/exec/session"
	"psim/exec/train"
	"psim/results"
	"psim/schedules/collective"
)

// among does something in n processes, which are goroutines in this test.
func among(t *testing.T, n int, what func(w *cluster.World) error) []error {
	invitation, err := cluster.Invite(n)
	require.NoError(t, err)
	list, errs := make([]*cluster.World, n), make([]error, n)
	each := func(what func(k int)) {
		var all sync.WaitGroup
		for k := range n {
			all.Go(func() { what(k) })
		}
		all.Wait()
	}
	each(func(k int) {
		if list[k], errs[k] = invitation.Join(context.Background(), k, cluster.Options{}); errs[k] == nil {
			errs[k] = what(list[k])
		}
	})
	each(func(k int) { list[k].Close() })
	return errs
}

// The first of several processes predicts, measures and checks a configuration, and decides how
// often it is run; the others keep nothing.
func TestSessionAmongProcesses(t *testing.T) {
	var all [2]*session.Session
	errs := among(t, 2, func(w *cluster.World) error {
		c, _, err := session.Load("exec-mlp", 3, "model.layers=6", "model.hidden=16", "batch.global=16")
		if err != nil {
			return err
		}
		s := &session.Session{Options: session.Options{Seed: 1, Tries: 2, Measure: measure.Options{
			Devices: exectest.Options(),
			Train:   train.Options{Run: run.Options{World: w}, Warmup: 1, Steps: 2}, Repeats: 1,
			Checks: measure.CheckNames(),
		}}}
		all[w.Rank] = s
		return s.Run(context.Background(), c, c)
	})
	require.Equal(t, make([]error, 2), errs)
	require.Empty(t, all[1].Runs)
	require.Len(t, all[0].Runs, 2)
	require.NoError(t, all[0].Err())
	predicted, measured := all[0].Main().Sides()
	require.Positive(t, predicted.Result.StepTime)
	require.Len(t, measured.Result.Steps, 2)
	list := measured.Result.Processes
	require.Equal(t, []int{0, 1}, list[0].Ranks)
	require.Equal(t, []int{2}, list[1].Ranks)
	require.Equal(t, list[0].Host, list[1].Host)
	require.Zero(t, list[0].ClockResidual)
	require.Positive(t, list[1].ClockResidual)
	for _, r := range measured.Result.Ranks {
		require.Positive(t, r.Compute, "rank %d", r.Rank)
		require.Positive(t, r.PeakMemory, "rank %d", r.Rank)
	}
}

// If one process refuses a configuration, all sessions end.
func TestSessionRefusedByOne(t *testing.T) {
	errs := among(t, 2, func(w *cluster.World) error {
		c, _, err := session.Load("exec-mlp", 2)
		if err != nil {
			return err
		}
		s := &session.Session{Options: session.Options{Seed: 1, Measure: measure.Options{
			Devices: exectest.Options(),
			Train:   train.Options{Run: run.Options{World: w}, Warmup: 1, Steps: 2}, Repeats: 1,
		}}}
		if w.Rank == 1 {
			s.Measure.Devices.Backend = "abacus"
		}
		return s.Run(context.Background(), c)
	})
	require.ErrorContains(t, errs[1], `--backend abacus: unknown backend`)
	require.True(t, errors.As(errs[0], new(*cluster.AbortError)), errs[0])
	require.ErrorContains(t, errs[0], `--backend abacus: unknown backend`)
}

// Processes that would run something different from the first are refused.
func TestSessionDisagrees(t *testing.T) {
	folder := t.TempDir()
	for _, rank := range []string{"0", "1"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, rank), []byte(rank), 0o600))
	}
	const flags, files = "was started with another configuration or other flags than the first",
		"was started with other data than the first; give all the same files"
	for _, c := range []struct {
		want   string
		differ func(s *session.Session) string
	}{
		{flags, func(s *session.Session) string { s.Measure.Train.Steps++; return "model.layers=4" }},
		{flags, func(*session.Session) string { return "model.layers=6" }},
		{files, func(s *session.Session) string {
			s.Measure.Data.Source = "pairs:" + filepath.Join(folder, "1")
			return "model.layers=4"
		}},
	} {
		errs := among(t, 2, func(w *cluster.World) error {
			s := &session.Session{Options: session.Options{Seed: 1, Measure: measure.Options{
				Devices: exectest.Options(),
				Train:   train.Options{Run: run.Options{World: w}, Warmup: 1, Steps: 2}, Repeats: 1,
				Data: data.Options{Source: "pairs:" + filepath.Join(folder, "0")},
			}}}
			set := "model.layers=4"
			if w.Rank == 1 {
				set = c.differ(s)
			}
			config, _, err := session.Load("exec-mlp", 2, set)
			if err != nil {
				return err
			}
			return s.Run(context.Background(), config)
		})
		require.ErrorContains(t, errs[0], "process 1 (pid ")
		require.ErrorContains(t, errs[0], c.want)
		require.True(t, errors.As(errs[1], new(*cluster.AbortError)), errs[1])
	}
}

// Collectives over several processes leave the right numbers, and have a prediction.
func TestCollectivesAmongProcesses(t *testing.T) {
	for _, name := range collective.Names() {
		var found [2]results.CollectiveSizes
		errs := among(t, 2, func(w *cluster.World) (err error) {
			found[w.Rank], err = session.Collectives{
				Devices: exectest.Options(), Name: name, Ranks: 4, Sizes: []int64{8, 4096, 40000},
				Warmup: 1, Repeat: 2, Options: run.Options{World: w},
			}.Run(t.Context())
			return err
		})
		require.Equal(t, make([]error, 2), errs, name)
		require.Empty(t, found[1].Sizes)
		require.GreaterOrEqual(t, len(found[0].Sizes), 2)
		require.Equal(t, []int{2, 3}, found[0].Processes[1].Ranks)
		for _, s := range found[0].Sizes {
			require.Zero(t, s.Wrong, "%s of %d bytes", name, s.Bytes)
			require.Positive(t, s.Predicted)
			require.Positive(t, s.BusBandwidth)
		}
	}
}

// Processes that would run a collective over different sizes are refused.
func TestCollectivesDisagree(t *testing.T) {
	errs := among(t, 2, func(w *cluster.World) error {
		sizes := []int64{8, 32}[:2-w.Rank]
		_, err := session.Collectives{
			Devices: exectest.Options(), Name: collective.RingAllReduce, Ranks: 2, Sizes: sizes,
			Repeat: 1, Options: run.Options{World: w},
		}.Run(t.Context())
		return err
	})
	require.ErrorContains(t, errs[0], "was started with another configuration or other flags than the first")
	require.True(t, errors.As(errs[1], new(*cluster.AbortError)), errs[1])
}
