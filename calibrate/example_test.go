package calibrate_test

import (
	"fmt"
	"time"

	"psim/calibrate"
)

// Copies of one piece and of two tell what a piece takes whatever its size, and the
// rate of the rest.
func ExampleFitTransfers() {
	perPiece, rate := calibrate.FitTransfers([]calibrate.MeasuredCopy{
		{Pieces: 1, Bytes: 1_000_000, Time: 110 * time.Microsecond},
		{Pieces: 1, Bytes: 4_000_000, Time: 410 * time.Microsecond},
		{Pieces: 2, Bytes: 4_000_000, Time: 420 * time.Microsecond},
	})
	fmt.Printf("%v for a piece, %.3g bytes per second\n", time.Duration(perPiece), float64(rate))
	// Output: 10µs for a piece, 1e+10 bytes per second
}
