package published

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
	"psim/internal/formula"
)

// The catalog's scan is the fit to the rows that count, to its last digit: the one number with which the squares of the
// logarithms of the errors are least.
func TestFittedScans(t *testing.T) {
	for device, like := range map[string][]string{
		"h100-80gb-sxm":  {"h100-80gb-sxm", "h800-80gb-sxm"},
		"b200-180gb-sxm": {"b200-180gb-sxm"},
	} {
		rows := scanRows(t, like)
		require.GreaterOrEqual(t, len(rows), 2)
		best, least := 0.0, math.Inf(1)
		for thousandth := 1; thousandth < 1000; thousandth++ {
			share, sum := float64(thousandth)/1000, 0.0
			for _, r := range rows {
				r.op.device.Scan = share
				took, err := r.op.seconds(r.samples, true, false)
				require.NoError(t, err)
				e := math.Log(took * 1e3 / r.published)
				sum += e * e
			}
			if sum < least {
				best, least = share, sum
			}
		}
		require.Equal(t, best, catalogDevice(t, device).Scan, device)
	}
	for _, other := range []string{"gb200-nvl72", "gb300-nvl72", "b300-270gb-sxm"} {
		from, d := catalogDevice(t, "b200-180gb-sxm"), catalogDevice(t, other)
		want, err := from.Achievable("bf16")
		require.NoError(t, err)
		rate, err := d.Achievable("bf16")
		require.NoError(t, err)
		require.InDelta(t, from.Scan*want/rate, d.Scan, 5.1e-4, other)
	}
}

// A scanRow is a row that counts.
type scanRow struct {
	op        fusedAttention
	samples   int64
	published float64 // ms
}

func scanRows(t *testing.T, devices []string) (list []scanRow) {
	of := table("scans")
	for _, r := range rowsOf(t, of) {
		number := func(expression string) float64 {
			x, err := formula.Number(expression, r)
			require.NoError(t, err)
			return x
		}
		if !slices.Contains(devices, r.text("device")) || r.text("use") != "fit" {
			continue
		}
		op, err := r.first(network.Scan)
		require.NoError(t, err)
		list = append(list, scanRow{op, int64(number("batch")), number(of.Published)})
	}
	return list
}
