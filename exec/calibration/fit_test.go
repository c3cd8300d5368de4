package calibration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec"
	"psim/internal/units"
)

// A machine file needs a bandwidth even where a disturbed machine took longer for less.
func TestTransfersInNoise(t *testing.T) {
	perPiece, rate := fitTransfers([]exec.Batched{
		{Tensors: 1, Bytes: 4e3, Time: 90 * time.Microsecond}, {Tensors: 1, Bytes: 4e6, Time: 40 * time.Microsecond},
	})
	require.Equal(t, units.Rate(1e11), rate)
	require.Zero(t, perPiece)
}
