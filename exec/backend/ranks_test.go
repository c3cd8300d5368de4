package backend

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Devices of the backend go are numbered among the processes that may run on the same cores,
// and GPUs among all processes of a machine.
func TestPlaced(t *testing.T) {
	all, first, second := []int{0, 1, 2, 3}, []int{0, 1}, []int{2, 3}
	numbers := map[string]int{}
	on := func(host string, devices int, allowed []int) processSite {
		numbers[host]++
		return processSite{Host: host, Local: numbers[host], Devices: devices, Allowed: allowed}
	}
	shared := []processSite{on("a", 2, all), on("b", 1, all), on("a", 1, all), on("a", 1, all)}
	require.Equal(t, []devicePlace{{0, 4}, {0, 1}, {2, 4}, {3, 4}}, placesOf(shared, Options{}))
	bound := []processSite{on("a", 2, first), on("a", 1, second), on("a", 1, second)}
	require.Equal(t, []devicePlace{{0, 2}, {0, 2}, {1, 2}}, placesOf(bound, Options{Backend: "go"}))
	require.Equal(t, []devicePlace{{0, 4}, {2, 4}, {3, 4}}, placesOf(bound, Options{Backend: "xla"}))
	onCores := Options{Backend: "xla", CoresPerWorker: 1}
	require.Equal(t, placesOf(bound, Options{}), placesOf(bound, onCores), "XLA's devices on cores are placed as Go's")
	told := []processSite{{Host: "a", Local: 1, Devices: 2}, {Host: "a", Local: 0, Devices: 1}} // LOCAL_RANK
	require.Equal(t, []devicePlace{{1, 3}, {0, 3}}, placesOf(told, Options{}))
}

// Devices have blocks of cores, which do not overlap unless they are the same.
func TestCoreBlocks(t *testing.T) {
	allowed := []int{1, 2, 4, 5, 7}
	for _, c := range []struct {
		first, n, each int
		want           []int
	}{
		{0, 1, 1, []int{1}}, {4, 1, 1, []int{7}}, {5, 1, 1, []int{1}}, {1, 2, 1, []int{2, 4}}, {4, 2, 1, []int{1, 7}},
		{0, 1, 2, []int{1, 2}}, {1, 1, 2, []int{4, 5}}, {2, 1, 2, []int{1, 2}}, {0, 3, 2, []int{1, 2, 4, 5}},
		{3, 1, 9, allowed},
	} {
		require.Equal(t, c.want, coreBlocks(allowed, c.first, c.n, c.each), "%+v", c)
	}
}
