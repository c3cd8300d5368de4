package published

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// The share of its memory's bandwidth that a device reaches is the median of what others
// have measured on its chip and memory, or that of a device like it, and docs/products.md
// has the same numbers.
func TestMemoryEfficienciesAreMeasured(t *testing.T) {
	document, err := os.ReadFile("../docs/products.md")
	require.NoError(t, err)
	shares := memoryShares(t)
	for name, list := range shares {
		d := catalogDevice(t, name)
		median := medianOf(list)
		source := d.Source["efficiency_memory"]
		if strings.HasPrefix(source, "measured: the median of") || strings.HasPrefix(source, "measured: one rate of") {
			require.Equal(t, math.Round(100*median)/100, d.Efficiency.Memory, name)
			words := fmt.Sprintf("the median of %d rates of ", len(list))
			if len(list) == 1 {
				words = "one rate of "
			}
			require.Contains(t, source, "measured: "+words, name)
		}
		require.Contains(t, string(document), fmt.Sprintf("| %s | %d | %.2f | %.2f to %.2f | %s |", name, len(list), median,
			slices.Min(list), slices.Max(list), strconv.FormatFloat(d.Efficiency.Memory, 'f', -1, 64)))
	}
	for _, d := range configs.Catalog().Devices {
		source := d.Source["efficiency_memory"]
		if as, ok := strings.CutPrefix(source, "derived: as "); ok {
			name, _, _ := strings.Cut(as, ",")
			require.Equal(t, catalogDevice(t, name).Efficiency.Memory, d.Efficiency.Memory, d.Name)
		}
		if strings.Contains(source, "the median of") || strings.Contains(source, "one rate of") {
			require.Contains(t, shares, d.Name)
		}
	}
}

// memoryShares returns rates over the bandwidth of the board's datasheet. The two boards of
// A100 with 80 GB, whose memory differs in its clock, count as one.
func memoryShares(t *testing.T) map[string][]float64 {
	t.Helper()
	shares := map[string][]float64{}
	for _, r := range records("memory_rates.csv") {
		name := r.text("device")
		share := 1e9 * r.number("gbs") / float64(catalogDevice(t, name).MemoryBandwidth)
		if name == "a100-80gb-pcie" {
			name = "a100-80gb-sxm"
		}
		shares[name] = append(shares[name], share)
	}
	return shares
}

func medianOf(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	middle := len(list) / 2
	if len(list)%2 == 1 {
		return list[middle]
	}
	return (list[middle-1] + list[middle]) / 2
}

// Rates in fp32 that are fitted to an epoch of a course give that epoch, beside the
// device's launch and memory.
func TestRatesInFP32AreFitted(t *testing.T) {
	rows := rowsOf(t, table("gpt2-4090d"))
	for device, want := range map[string]struct {
		run     int
		seconds float64
	}{
		"v100-32gb-sxm": {0, 48.3},  // 64 samples on one device
		"l40":           {2, 23.76}, // 32 over two, without a pipeline
		"rtx-3090":      {2, 35.72},
	} {
		var epoch DataPoint
		run := rows[want.run].with(change{Set: settings{"machine.device": device, "machine.host.operation": "0us"}})
		require.NoError(t, run.numbers(&epoch))
		require.InEpsilon(t, want.seconds, epoch.Predicted, 0.002, device)
		require.Contains(t, catalogDevice(t, device).Source["efficiency_fp32"], fmt.Sprintf("fit: %v s per epoch", want.seconds))
	}
}
