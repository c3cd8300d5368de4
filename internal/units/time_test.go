package units_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/units"
)

func TestLongest(t *testing.T) {
	require.Equal(t, units.Longest, units.Seconds(1e300))
	require.Equal(t, units.Longest, units.Seconds(math.Inf(1)))
	require.Equal(t, units.Longest, units.Nanoseconds(float64(units.Longest)))
	require.Equal(t, units.Longest, units.Sum(units.Longest, units.Longest, math.MaxInt64))
	require.Equal(t, units.Longest, units.Repeat(math.MaxInt64, 2))
	require.Equal(t, time.Duration(6), units.Sum(1, 2, 3))
	require.Zero(t, units.Sum())
	require.Zero(t, units.Repeat(0, math.MaxInt64))
	require.Equal(t, time.Duration(2), units.Seconds(1.5e-9))
}

func ExampleSum() {
	fmt.Println(units.Sum(units.Seconds(1.5), units.Repeat(3, time.Second)))
	// Output: 4.5s
}
