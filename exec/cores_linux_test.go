package exec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec"
	"psim/internal/cores"
)

// A device that is pinned has one core for whoever enters it, each its own as far as
// there are so many; others leave the caller where it is.
func TestPinnedDevices(t *testing.T) {
	all, err := cores.Allowed()
	require.NoError(t, err)
	for each, want := range map[int]int{0: len(all), 1: 1, 2: len(all)} {
		devices, err := exec.OpenDevices(3, exec.DeviceOptions{Oversubscribe: true, CoresPerWorker: each})
		require.NoError(t, err)
		for rank, d := range devices {
			leave, err := d.Enter()
			require.NoError(t, err)
			now, err := cores.Allowed()
			require.NoError(t, err)
			require.Len(t, now, want)
			if each == 1 {
				require.Equal(t, all[rank%len(all)], now[0])
			}
			leave()
		}
		exec.CloseDevices(devices)
	}
	now, err := cores.Allowed()
	require.NoError(t, err)
	require.Equal(t, all, now)
	require.Empty(t, exec.DeviceOptions{}.Unpinned())
	require.Empty(t, exec.DeviceOptions{CoresPerWorker: 1}.Unpinned())
	require.Contains(t, exec.DeviceOptions{CoresPerWorker: 3}.Unpinned(), "a device of 3 cores divides its matrix products among goroutines of gomlx")
}

// Cores change where is computed, and nothing of what.
func TestCoresTrainTheSame(t *testing.T) {
	n := tiedGPT(t)
	j := mode{schedule: "1f1b", ranks: 2, replicas: 1}.job(t, n, []int{2, 2})
	var want []float64
	for _, each := range []int{0, 1, 2} {
		m, err := exec.Measure(t.Context(), j, exec.MeasureOptions{
			Devices:      exec.DeviceOptions{Oversubscribe: true, CoresPerWorker: each},
			TrainOptions: exec.TrainOptions{Warmup: 1, Steps: 2}, Repeats: 1, Checks: exec.CheckNames(),
		})
		require.NoError(t, err)
		require.NoError(t, m.Verdict.Err())
		if each == 0 {
			want = m.Record.Losses
		}
		require.Equal(t, want, m.Record.Losses, "to the bit")
	}
}

// More cores than there are, and cores of GPUs, are refused.
func TestCoresErrors(t *testing.T) {
	for want, o := range map[string]exec.DeviceOptions{
		"1 device of 4096 cores each on ":                                           {CoresPerWorker: 4096},
		"cores per worker are of the backend go; those of the backend xla are GPUs": {CoresPerWorker: 1, Backend: "xla"},
	} {
		_, err := exec.OpenDevices(1, o)
		require.ErrorContains(t, err, want)
	}
	require.False(t, exec.Comparable(2, exec.DeviceOptions{CoresPerWorker: 4096}))
}
