package exec

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process on one core gets a second thread for its messages, and only for a time.
func TestSpare(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	take := spare()
	require.Equal(t, 2, runtime.GOMAXPROCS(0))
	spare()() // of a graph within
	require.Equal(t, 2, runtime.GOMAXPROCS(0))
	take()
	require.Equal(t, 1, runtime.GOMAXPROCS(0))
}
