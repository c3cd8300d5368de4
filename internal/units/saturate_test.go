package units

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLongest(t *testing.T) {
	require.Equal(t, Longest, Seconds(1e300))
	require.Equal(t, Longest, Seconds(math.Inf(1)))
	require.Equal(t, Longest, Nanoseconds(float64(Longest)))
	require.Equal(t, Longest, Sum(Longest, Longest, math.MaxInt64))
	require.Equal(t, Longest, Repeat(math.MaxInt64, 2))
	require.Equal(t, time.Duration(6), Sum(1, 2, 3))
	require.Zero(t, Sum())
	require.Zero(t, Repeat(0, math.MaxInt64))
	require.Equal(t, time.Duration(2), Seconds(1.5e-9))
}

func ExampleSum() {
	fmt.Println(Sum(Seconds(1.5), Repeat(3, time.Second)))
	// Output: 4.5s
}
