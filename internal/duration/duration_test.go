package duration_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/duration"
)

func TestLongest(t *testing.T) {
	require.Equal(t, duration.Longest, duration.Seconds(1e300))
	require.Equal(t, duration.Longest, duration.Seconds(math.Inf(1)))
	require.Equal(t, duration.Longest, duration.Nanoseconds(float64(duration.Longest)))
	require.Equal(t, duration.Longest, duration.Sum(duration.Longest, duration.Longest, math.MaxInt64))
	require.Equal(t, duration.Longest, duration.Repeat(math.MaxInt64, 2))
	require.Equal(t, time.Duration(6), duration.Sum(1, 2, 3))
	require.Zero(t, duration.Sum())
	require.Zero(t, duration.Repeat(0, math.MaxInt64))
	require.Equal(t, time.Duration(2), duration.Seconds(1.5e-9))
}

func Example() {
	fmt.Println(duration.Sum(duration.Seconds(1.5), duration.Repeat(3, time.Second)))
	// Output: 4.5s
}
