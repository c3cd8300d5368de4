package layers

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/exec/measure"
	"psim/internal/units"
)

// A machine file needs a bandwidth even if a disturbed machine took longer for fewer bytes.
func TestTransfersInNoise(t *testing.T) {
	perPiece, rate := fitTransfers([]measure.TensorTime{
		{Tensors: 1, Bytes: 4e3, Time: 90 * time.Microsecond}, {Tensors: 1, Bytes: 4e6, Time: 40 * time.Microsecond},
	})
	require.Equal(t, units.Rate(1e11), rate)
	require.Zero(t, perPiece)
}

// A measurement next to other programs leads to a warning, in the file as well.
func TestDoubts(t *testing.T) {
	doubts := func(disturbed bool, cores costmodel.MachineCores) (*Calibration, int) {
		c := &Calibration{Cores: &cores}
		c.doubt(disturbed)
		return c, len(c.Warnings)
	}
	steady := costmodel.MachineCores{Number: 2, Forward: 1.1, Backward: 1.05, Update: 1.3, Average: 1}
	_, n := doubts(false, steady)
	require.Zero(t, n)
	c, n := doubts(true, steady)
	require.Equal(t, 1, n)
	require.Contains(t, strings.Join(c.Comment(), "\n"), "Warning: the machine was disturbed")
	steady.Backward = 2
	_, n = doubts(false, steady)
	require.Equal(t, 1, n)
}
