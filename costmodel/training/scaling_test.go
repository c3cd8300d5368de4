package training

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bytes of a recipe by hand, for 1024 numbers.
func TestScaling(t *testing.T) {
	for _, c := range []struct {
		train                        Options
		bytes, held, gathered, casts int64
	}{
		{Options{Precision: PrecisionFP8, FP8Recipe: RecipeDelayed}, 1024, 2*1024 - 2048, -1024, 2048},
		{Options{Precision: PrecisionFP8}, 1024, 2*1024 - 2048, -1024, 2048},
		{Options{Precision: PrecisionFP8, BothWays: true}, 1024, 1024 - 2048, -1024, 0},
		{Options{Precision: PrecisionFP8, Weights: Weights16}, 1024, 2 * 1024, 0, 2*2048 + 2048},
		{Options{Precision: PrecisionFP8, FP8Recipe: RecipeBlockwise}, 1024 + 32, 2 * 1056, 0, 2048 + 2*1056},
		{Options{Precision: PrecisionMXFP8}, 1024 + 32, 2*1056 - 2048, 0, 2048 + 2*1056},
		{Options{Precision: PrecisionNVFP4}, 512 + 64, 2 * 576, 0, 3*2048 + 2*576},
	} {
		require.NoError(t, c.train.Validate())
		require.Equal(t, c.bytes, c.train.scaling().bytes(1024), "%+v", c.train)
		require.Equal(t, c.held, c.train.HeldExtra(1024), "%+v", c.train)
		require.Equal(t, c.gathered, c.train.GatheredExtra(1024), "%+v", c.train)
		require.Equal(t, c.casts, c.train.CastBytes(1024), "%+v", c.train)
	}
}

func ExampleOptions_HeldExtra() {
	for _, t := range []Options{{Precision: PrecisionFP8, FP8Recipe: RecipeBlockwise}, {Precision: PrecisionMXFP8}} {
		fmt.Println(2+float64(t.HeldExtra(1024))/1024, "bytes for a weight,", 2+float64(t.GatheredExtra(1024))/1024, "of them gathered")
	}
	// Output:
	// 4.0625 bytes for a weight, 2 of them gathered
	// 2.0625 bytes for a weight, 2 of them gathered
}
