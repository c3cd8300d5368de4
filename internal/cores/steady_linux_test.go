package cores_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"psim/internal/cores"
)

// held lists the signals that the calling thread holds back.
func held(t *testing.T) (set unix.Sigset_t) {
	t.Helper()
	require.NoError(t, unix.PthreadSigmask(unix.SIG_BLOCK, nil, &set))
	return set
}

// The runtime's signal is held back meanwhile, and nothing else; calls may be nested.
func TestSteady(t *testing.T) {
	outer := cores.Steady()
	within := held(t)
	require.NotZero(t, within.Val[0]&(1<<(unix.SIGURG-1)))
	inner := cores.Steady()
	require.Equal(t, within, held(t))
	inner()
	require.Equal(t, within, held(t))
	outer()
	require.Zero(t, held(t).Val[0]&(1<<(unix.SIGURG-1)))
}

// A goroutine adds numbers and is not interrupted meanwhile.
func ExampleSteady() {
	defer cores.Steady()()
	sum := 0
	for i := range 1000 {
		sum += i
	}
	fmt.Println(sum)
	// Output: 499500
}
