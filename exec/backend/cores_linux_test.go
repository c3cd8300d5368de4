package backend_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/internal/cores"
)

// A pinned device has one core for everyone who enters it, and each device another one while
// there are enough. Other devices leave the caller where it is.
func TestPinnedDevices(t *testing.T) {
	all, err := cores.Allowed()
	require.NoError(t, err)
	for each, want := range map[int]int{0: len(all), 1: 1, 2: len(all)} {
		devices, err := backend.Open(3, backend.Options{Oversubscribe: true, CoresPerWorker: each})
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
		backend.Close(devices)
	}
	now, err := cores.Allowed()
	require.NoError(t, err)
	require.Equal(t, all, now)
	require.Empty(t, backend.Options{}.Unpinned())
	require.Empty(t, backend.Options{CoresPerWorker: 1}.Unpinned())
	require.Contains(t, backend.Options{CoresPerWorker: 3}.Unpinned(),
		"a device of 3 cores divides its matrix products among goroutines of gomlx")
}

// More cores than there are are refused.
func TestCoresErrors(t *testing.T) {
	for want, o := range map[string]backend.Options{
		"1 device of 4096 cores each on ": {CoresPerWorker: 4096},
	} {
		_, err := backend.Open(1, o)
		require.ErrorContains(t, err, want)
	}
	require.False(t, backend.Options{CoresPerWorker: 4096}.Comparable(2, runtime.GOMAXPROCS(0)))
}
