package exec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Devices of the backend go are numbered among the processes of a machine that may run on
// the same cores, GPUs among all of a machine.
func TestPlaced(t *testing.T) {
	all, first, second := []int{0, 1, 2, 3}, []int{0, 1}, []int{2, 3}
	on := func(host string, devices int, allowed []int) site {
		return site{Host: host, Devices: devices, Allowed: allowed}
	}
	shared := []site{on("a", 2, all), on("b", 1, all), on("a", 1, all), on("a", 1, all)}
	require.Equal(t, []place{{0, 4}, {0, 1}, {2, 4}, {3, 4}}, placed(shared, DeviceOptions{}))
	bound := []site{on("a", 2, first), on("a", 1, second), on("a", 1, second)}
	require.Equal(t, []place{{0, 2}, {0, 2}, {1, 2}}, placed(bound, DeviceOptions{Backend: "go"}))
	require.Equal(t, []place{{0, 4}, {2, 4}, {3, 4}}, placed(bound, DeviceOptions{Backend: "xla"}))
}
