package units

import (
	"slices"
	"time"
)

// Median returns the number in the middle of a list, or the mean of the two in the middle of an even
// count. It returns 0 for an empty list.
func Median[T time.Duration | float64](list []T) T {
	n := len(list)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Mean returns the mean of a list that is not empty.
func Mean(list []float64) (mean float64) {
	for _, x := range list {
		mean += x
	}
	return mean / float64(len(list))
}
