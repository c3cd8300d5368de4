package published

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// The start of products, with what a table's timer adds, is the same on V100, A100 and H100
// by Triton's timer. So a device of the generations before Hopper, or beside it, has the
// launch of H100, and docs/products.md has the same numbers.
func TestProductsStartAlike(t *testing.T) {
	document, err := os.ReadFile("../docs/products.md")
	require.NoError(t, err)
	want := map[string]float64{
		"xla-sm90": 5.8, "xla-sm100": 5.8,
		"triton-1648": 10.0, "triton-3551": 9.8, "triton-6523": 13.1, "triton-7085": 9.7, "triton-2339": 9.6, "triton-3672": 9.7,
	}
	for _, list := range allProducts() {
		name := list[0].table
		if want[name] == 0 {
			continue
		}
		start := 1e6 * productsStart(productTable{catalogDevice(t, list[0].device), list})
		require.InDelta(t, want[name], start, 0.11, name)
		require.Contains(t, string(document), fmt.Sprintf("| %s | %s | %.1f |", name, list[0].device, want[name]))
	}
	for _, d := range configs.Catalog().Devices {
		if as, ok := strings.CutPrefix(d.Source["launch"], "derived: as "); ok {
			name, _, _ := strings.Cut(as, ",")
			require.Equal(t, catalogDevice(t, name).Launch, d.Launch, d.Name)
		}
	}
}

// productsStart returns the start in seconds, in steps of a tenth of a microsecond, for which
// the squares of the logarithms of price over time are least.
func productsStart(table productTable) float64 {
	best, start := math.Inf(1), 0.0
	for s := 0.0; s <= maxStart; s += 1e-7 {
		squares := least(math.Log(0.2*float64(table.device.Peak.FP16)), math.Log(1.2*float64(table.device.Peak.FP16)), func(rate float64) (sum float64) {
			prices := table.prices(table.device.HalfRows, math.Exp(rate))
			for i, p := range table.list {
				e := math.Log((s + prices[i]) / p.seconds)
				sum += e * e
			}
			return sum
		})
		if squares < best {
			best, start = squares, s
		}
	}
	return start
}
