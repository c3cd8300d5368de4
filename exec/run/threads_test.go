package run

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process on one core gets a second thread for its messages while it runs a graph.
func TestSpare(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	take := addThread()
	require.Equal(t, 2, runtime.GOMAXPROCS(0))
	addThread()() // of an inner graph
	require.Equal(t, 2, runtime.GOMAXPROCS(0))
	take()
	require.Equal(t, 1, runtime.GOMAXPROCS(0))
}
