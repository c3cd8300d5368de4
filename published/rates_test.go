package published

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel"
)

// A derivation says from which device another's rate of products is derived: it has as much
// of it as a published rate of its own is of the same one of that device. Where both tables
// are "", these rates are the largest squares that were repeated; else the best products.
type derivation struct {
	device, precision, table string
	from, fromPrecision      string
	fromTable                string
}

const sxm = "h100-80gb-sxm" // whose long runs tell what they keep of a product

// derivations lists them by rule, with 16 bits and less first.
func derivations() (list []derivation) {
	squares := func(precision, from, fromPrecision string, devices ...string) {
		for _, d := range devices {
			list = append(list, derivation{d, precision, "", from, fromPrecision, ""})
		}
	}
	squares("fp16", sxm, "bf16", "v100-16gb-sxm", "h100-80gb-pcie", "h20-96gb-sxm", "l4", "t4", "a10g", "rtx-4090", "rtx-2080ti")
	squares("bf16", sxm, "bf16", "h100-80gb-pcie", "h20-96gb-sxm", "b200-180gb-sxm", "gb300-nvl72", "l4", "a10g", "rtx-4090", "tpu-v5e", "tpu-v6e")
	squares("fp8", sxm, "bf16", "b200-180gb-sxm", "gb200-nvl72")
	squares("fp4", sxm, "bf16", "b200-180gb-sxm", "gb200-nvl72")
	squares("fp16", "a100-80gb-sxm", "fp16", "a100-40gb-pcie")
	squares("bf16", "a100-80gb-sxm", "fp16", "a100-40gb-pcie")
	squares("fp32", sxm, "fp32", "a100-40gb-pcie", "h100-80gb-pcie", "h20-96gb-sxm", "l4", "rtx-2080ti")
	return append(list, []derivation{
		{"a100-80gb-pcie", "bf16", "mamf", "a100-80gb-sxm", "bf16", "mamf"},
		{"b300-270gb-sxm", "bf16", "mamf", "b200-180gb-sxm", "bf16", "mamf"},
		{"b300-270gb-sxm", "fp8", "mamf", "b200-180gb-sxm", "fp8", "mamf"},
		{"gb200-nvl72", "bf16", "mamf", "b200-180gb-sxm", "bf16", "mamf"},
		{"l40", "bf16", "mag", "rtx-4090", "bf16", "mag"},
		{"l40s", "fp16", "squares-43", sxm, "bf16", "mamf"},
		{"l40s", "bf16", "squares-43", sxm, "bf16", "mamf"},
		{"rtx-3090", "fp16", "database", "a10g", "fp16", "squares-126"},
		{"rtx-3090", "bf16", "database", "a10g", "bf16", "squares-126"},
		{"rtx-4090", "fp8", "dense", "rtx-4090", "bf16", "dense"},
		{"rtx-4090d", "fp16", "squares-20", "rtx-4090", "fp16", "squares-20"},
		{"rtx-4090d", "bf16", "squares-20", "rtx-4090", "bf16", "squares-20"},
		{"a100-80gb-sxm", "fp32", "database", sxm, "fp32", "squares-79"},
		{"b200-180gb-sxm", "fp32", "database", sxm, "fp32", "squares-79"},
		{"l40s", "fp32", "squares-43", "rtx-4090d", "fp32", "squares-20"},
		{"t4", "fp32", "database", sxm, "fp32", "squares-79"},
		{"a10g", "fp32", "squares-126", "rtx-3090", "fp32", "database"},
		{"rtx-4090", "fp32", "squares-20", "rtx-4090d", "fp32", "squares-20"},
		{"p40", "fp32", "database", sxm, "fp32", "squares-79"},
		{"mi250x", "bf16", "mamf", sxm, "bf16", "mamf"},
		{"mi300x", "bf16", "mamf", sxm, "bf16", "mamf"},
		{"mi325x", "bf16", "mamf", sxm, "bf16", "mamf"},
		{"mi355x", "bf16", "mamf", sxm, "bf16", "mamf"},
		{"mi300x", "fp16", "maf", "mi300x", "bf16", "maf"},
		{"mi325x", "fp16", "taf", "mi325x", "bf16", "taf"},
		{"mi300x", "fp8", "bohman", sxm, "bf16", "mamf"},
		{"mi325x", "fp8", "taf", sxm, "bf16", "mamf"},
		{"mi355x", "fp8", "cdna4", sxm, "bf16", "mamf"},
		{"mi250x", "fp32", "rocblas", sxm, "fp32", "squares-79"},
		{"mi300x", "fp32", "rocblas", sxm, "fp32", "squares-79"},
	}...)
}

// The catalog's shares are those of the rule, its sources name what they are derived from,
// and docs/products.md has a row for each.
func TestSustainedRates(t *testing.T) {
	saved, err := os.ReadFile("../docs/products.md")
	require.NoError(t, err)
	derived := map[string]bool{}
	for _, d := range derivations() {
		rate := reached(t, d.from, d.fromPrecision) * published(t, d.device, d.precision, d.table) / published(t, d.from, d.fromPrecision, d.fromTable)
		device := catalogDevice(t, d.device)
		of := device.RateIn(d.precision)
		want := math.Round(1e3*rate/(float64(of.Peak)/1e12)) / 1e3
		assert.Equal(t, want, of.Share, "%s in %s", d.device, d.precision)
		derived[d.device+" "+d.precision] = true

		source := device.Source["efficiency_"+d.precision]
		require.True(t, strings.HasPrefix(source, "derived: "), "%s: %s", d.device, source)
		assert.Contains(t, source, fmt.Sprintf("%.5g", published(t, d.device, d.precision, d.table)), d.device)
		row := d.row(t, rate, of.Share)
		assert.True(t, strings.Contains(string(saved), row), "docs/products.md is to have:\n%s", row)
	}
	// What is said to be as another's share is equal to it.
	catalog := configs.Catalog().Devices
	for _, device := range catalog {
		for _, r := range device.Rates() {
			words := strings.FieldsFunc(device.Source["efficiency_"+r.Name], func(c rune) bool { return strings.ContainsRune(" ,;", c) })
			if len(words) < 3 || words[0] != "derived:" || words[1] != "as" || derived[device.Name+" "+r.Name] {
				continue
			}
			if of := device.RateIn(words[2]); of.Peak > 0 {
				require.Equal(t, of.Share, r.Share, "%s in %s", device.Name, r.Name)
			} else if i := slices.IndexFunc(catalog, func(d costmodel.Device) bool { return d.Name == words[2] }); i >= 0 {
				require.Equal(t, catalog[i].RateIn(r.Name).Share, r.Share, "%s in %s", device.Name, r.Name)
			}
		}
	}
}

// row is the derivation in a Markdown table.
func (d derivation) row(t *testing.T, rate, share float64) string {
	what := "best product"
	if d.table == "" {
		what = "square"
	}
	own, other := published(t, d.device, d.precision, d.table), published(t, d.from, d.fromPrecision, d.fromTable)
	kept := reached(t, d.from, d.fromPrecision) / other
	return fmt.Sprintf("| %s | %s | %s | %.5g | %s | %.3f | %.4g | %.3f |", d.device, d.precision, what, own, d.from, kept, rate, share)
}

// reached is the rate in TFLOP/s that the catalog has for large products.
func reached(t *testing.T, device, precision string) float64 {
	rate, err := catalogDevice(t, device).Achievable(precision)
	require.NoError(t, err)
	return rate / 1e12
}

// published is a device's rate in TFLOP/s in a table of testdata/rates.csv, or that of the
// largest square of at least 4,096 there or in products.csv.
func published(t *testing.T, device, precision, table string) (rate float64) {
	largest := 0
	for _, r := range records("rates.csv") {
		if r.text("device") != device || r.text("precision") != precision {
			continue
		}
		if size := r.text("square"); table != "" && r.text("table") == table {
			return r.number("tflops")
		} else if table == "" && size != "" {
			largest, rate = r.count("square"), r.number("tflops")
		}
	}
	for _, r := range records("products.csv") {
		if size := r.count("m"); table == "" && r.text("device") == device && r.text("precision") == precision && r.text("us") == "" &&
			size == r.count("n") && size == r.count("k") && size >= max(4096, largest) {
			largest, rate = size, r.number("tflops")
		}
	}
	require.Positive(t, rate, "%s in %s: nothing in table %q", device, precision, table)
	return rate
}
