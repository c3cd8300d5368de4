package published

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
)

// A chip is one that devices share, with what its measured products say in 16 bits. The
// numbers are written here and not in a golden file, so that they change by hand alone.
type chip struct {
	name    string
	devices []string
	// tables, products, the value, the range that fits about as well, and the residuals in
	// percent with it and with 128.
	tables, products  int
	half, from, to    float64
	residual, assumed float64
	runs              bool // training runs say 128, as docs/products.md tells
}

var measuredChips = []chip{
	{"V100", []string{"v100-16gb-sxm", "v100-32gb-sxm", "v100-16gb-pcie", "v100-32gb-pcie"}, 2, 32, 144, 0, 480, 7.1, 7.1, false},
	{"RTX 2080 Ti", []string{"rtx-2080ti"}, 1, 4, 0, 0, 32, 10.1, 11.8, false},
	{"A100", []string{"a100-40gb-sxm", "a100-80gb-sxm", "a100-40gb-pcie", "a100-80gb-pcie"}, 4, 43, 0, 0, 240, 9.4, 9.7, true},
	{"A10G", []string{"a10g"}, 2, 8, 144, 96, 192, 2.0, 2.0, false},
	{"RTX 4090, L4", []string{"rtx-4090", "l4"}, 4, 16, 0, 0, 32, 10.6, 12, false},
	{"H100", []string{"h100-80gb-sxm", "h100-80gb-pcie"}, 8, 99, 0, 0, 64, 5.9, 6.5, true},
	{"H20", []string{"h20-96gb-sxm"}, 2, 8, 304, 288, 320, 0.7, 1.2, false},
	{"B200", []string{"b200-180gb-sxm"}, 2, 52, 0, 0, 48, 8.3, 9.5, true},
	{"MI355X", []string{"mi355x"}, 2, 207, 144, 64, 224, 24.3, 24.4, false},
}

// The catalog's half rows are those that measured products fit, as well as is said here,
// and docs/products.md has the same numbers.
func TestHalfRowsAreFitted(t *testing.T) {
	document, err := os.ReadFile("../docs/products.md")
	require.NoError(t, err)
	percent := func(x float64) float64 { return math.Round(1000*x) / 10 }
	for _, want := range measuredChips {
		fit := fitProducts(productTables(t, false, want.devices...))
		got := want
		got.tables, got.products, got.half, got.from, got.to = fit.tables, fit.products, fit.halfRows, fit.from, fit.to
		got.residual, got.assumed = percent(fit.residual), percent(fit.assumed)
		require.Equal(t, want, got)
		for _, name := range want.devices {
			d := catalogDevice(t, name)
			if strings.HasSuffix(d.Source["half_rows"], ", the same chip") {
				continue // held below
			}
			if want.runs {
				require.Equal(t, 128.0, d.HalfRows, name)
				require.Contains(t, d.Source["half_rows"], fmt.Sprintf("%d products in 16 bits fit %v, and up to %v as well", want.products, want.half, want.to), name)
				continue
			}
			require.Equal(t, want.half, d.HalfRows, name)
			require.Contains(t, d.Source["half_rows"], fmt.Sprintf("fit: %d products in 16 bits", want.products), name)
		}
		row := fmt.Sprintf("| %s | %d | %d | %v | %v to %v | %.1f %% | %.1f %% |", want.name, want.tables, want.products, want.half, want.from, want.to, want.residual, want.assumed)
		require.Contains(t, string(document), row)
	}
}

// Where tiles are serial is sourced, not fitted. Products confirm it on H100, and on B200
// and RTX 4090 they say the opposite, which docs/products.md tells with these residuals.
func TestSerialTilesOfProducts(t *testing.T) {
	for device, want := range map[string][2]float64{"h100-80gb-sxm": {6.1, 8.4}, "b200-180gb-sxm": {8.3, 7.3}, "rtx-4090": {4.7, 3.1}} {
		tables := productTables(t, false, device)
		require.InDelta(t, want[0], 100*fitProducts(tables).residual, 0.06, device)
		for i := range tables {
			tables[i].device.SerialTiles = !tables[i].device.SerialTiles
		}
		require.InDelta(t, want[1], 100*fitProducts(tables).residual, 0.06, device)
	}
}

// One value for all of NVIDIA's devices would be 0.
func TestHalfRowsOfAll(t *testing.T) {
	var devices []string
	for _, c := range measuredChips {
		if c.name != "MI355X" {
			devices = append(devices, c.devices...)
		}
	}
	fit := fitProducts(productTables(t, false, devices...))
	require.Equal(t, 262, fit.products)
	require.Zero(t, fit.halfRows)
	require.InDelta(t, 7.5, 100*fit.residual, 0.06)
}

// In fp32, where tiles are not counted, half rows stand for them, too.
func TestHalfRowsInFP32(t *testing.T) {
	fit := fitProducts(productTables(t, true, "v100-16gb-sxm", "a100-40gb-pcie", "a100-80gb-pcie", "h100-80gb-sxm", "h100-80gb-pcie", "h20-96gb-sxm", "l4", "rtx-4090", "a10g", "rtx-2080ti"))
	require.Equal(t, []float64{10, 58, 400, 80, 736}, []float64{float64(fit.tables), float64(fit.products), fit.halfRows, fit.from, fit.to})
	require.InDelta(t, 12.8, 100*fit.residual, 0.06)
}

// What a device's products take by shape has a source for every device, or a reason why a
// constant means nothing there; what is derived as another's is equal to it.
func TestProductConstantsHaveSources(t *testing.T) {
	for _, d := range configs.Catalog().Devices {
		for key, value := range map[string]func(costmodel.Device) float64{
			"half_rows":       func(d costmodel.Device) float64 { return d.HalfRows },
			"multiprocessors": func(d costmodel.Device) float64 { return float64(d.Multiprocessors) },
			"unaligned":       func(d costmodel.Device) float64 { return d.Unaligned },
		} {
			source := d.Source[key]
			require.NotEmpty(t, source, "%s %s", d.Name, key)
			if value(d) == 0 && key != "half_rows" {
				require.True(t, strings.HasPrefix(source, "none: "), "%s %s", d.Name, key)
			}
			if as, ok := strings.CutPrefix(source, "derived: as "); ok {
				name, _, _ := strings.Cut(as, ",")
				require.Equal(t, value(catalogDevice(t, name)), value(d), "%s %s", d.Name, key)
			}
		}
	}
}

// productStart is how many times the time of its table's shortest product a product takes
// at least that counts in a fit. Shorter ones time their start more than themselves.
const productStart = 2

// maxStart bounds what a table's timer may add to every product, in seconds.
const maxStart = 20e-6

// A product is one that others have timed: rows × inner by inner × cols.
type product struct {
	table, device, precision string
	rows, inner, cols        int64
	seconds                  float64
}

// products reads those of testdata, by table, without those that time their start.
func products() [][]product {
	tables := allProducts()
	for i, list := range tables {
		shortest := slices.MinFunc(list, func(a, b product) int { return cmp.Compare(a.seconds, b.seconds) }).seconds
		tables[i] = slices.DeleteFunc(list, func(p product) bool { return p.seconds < productStart*shortest })
	}
	return tables
}

func allProducts() (tables [][]product) {
	at := map[string]int{}
	for _, r := range records("products.csv") {
		p := product{r.text("table"), r.text("device"), r.text("precision"), int64(r.count("m")), int64(r.count("k")), int64(r.count("n")), 0}
		if p.seconds = 2 * float64(p.rows*p.inner*p.cols) / 1e12; r.text("us") == "" {
			p.seconds /= r.number("tflops")
		} else {
			p.seconds = r.number("us") / 1e6
		}
		if _, ok := at[p.table]; !ok {
			at[p.table], tables = len(tables), append(tables, nil)
		}
		tables[at[p.table]] = append(tables[at[p.table]], p)
	}
	return tables
}

// A productFit says what a chip's measured products tell of its half rows.
type productFit struct {
	tables, products int
	// halfRows is the value with the least residual, in steps of 16; the residual of those
	// from one below to one above is at most a twentieth larger.
	halfRows, from, to float64
	// residual is the root of the mean square of the logarithm of psim's price over the
	// measured time, and assumed that with 128, the value of a large GPU without a fit.
	residual, assumed float64
}

// productTables are those of devices in fp32 or in 16 bits, of which something is left to
// fit beside a rate and a start.
func productTables(t *testing.T, fp32 bool, devices ...string) (tables []productTable) {
	for _, list := range products() {
		if len(list) >= 3 && (list[0].precision == "fp32") == fp32 && slices.Contains(devices, list[0].device) {
			tables = append(tables, productTable{catalogDevice(t, list[0].device), list})
		}
	}
	return tables
}

// fitProducts fits half rows to tables. Each has a rate of its own, as power and clocks
// differ, and a start that its timer adds to each product; the rest is as psim prices its
// device.
func fitProducts(tables []productTable) (fit productFit) {
	fit.tables = len(tables)
	for _, t := range tables {
		fit.products += len(t.list)
	}
	residual := map[float64]float64{}
	for half := 0.0; half <= 1024; half += 16 {
		sum := 0.0
		for _, table := range tables {
			sum += table.squares(half)
		}
		residual[half] = math.Sqrt(sum / float64(fit.products))
		if half == 0 || residual[half] < fit.residual {
			fit.halfRows, fit.residual = half, residual[half]
		}
	}
	fit.from, fit.to, fit.assumed = fit.halfRows, fit.halfRows, residual[128]
	for ; fit.from > 0 && residual[fit.from-16] <= 1.05*fit.residual; fit.from -= 16 {
	}
	for ; fit.to < 1024 && residual[fit.to+16] <= 1.05*fit.residual; fit.to += 16 {
	}
	return fit
}

func catalogDevice(t *testing.T, name string) costmodel.Device {
	i := slices.IndexFunc(configs.Catalog().Devices, func(d costmodel.Device) bool { return d.Name == name })
	require.GreaterOrEqual(t, i, 0, "the catalog has no device %s", name)
	return configs.Catalog().Devices[i]
}

// A productTable is the products of one table, on one device.
type productTable struct {
	device costmodel.Device
	list   []product
}

// squares sums the squares of the logarithms of price over time, with the rate and the
// start for which they are least.
func (t productTable) squares(half float64) float64 {
	peak := max(t.device.Peak.FP32, t.device.Peak.FP16, t.device.Peak.BF16)
	if t.list[0].precision == "fp32" {
		peak = t.device.Peak.FP32
	}
	// Clocks go beyond those of a datasheet's peak.
	return least(math.Log(0.1*float64(peak)), math.Log(1.2*float64(peak)), func(rate float64) float64 {
		prices := t.prices(half, math.Exp(rate))
		return least(0, maxStart, func(start float64) (sum float64) {
			for i, p := range t.list {
				e := math.Log((start + prices[i]) / p.seconds)
				sum += e * e
			}
			return sum
		})
	})
}

// prices are those of the products in seconds, without a launch, at a rate.
func (t productTable) prices(half, rate float64) (list []float64) {
	d, precision := t.device, t.list[0].precision
	d.Launch, d.HalfRows, d.HalfRowsFP32 = 0, half, 0
	d.Peak = costmodel.Peak{FP32: units.FLOPS(rate), FP16: units.FLOPS(rate), BF16: units.FLOPS(rate)}
	d.Efficiency.FP32, d.Efficiency.FP16, d.Efficiency.BF16 = 1, 1, 1
	c, err := costmodel.NewCompute(d, training.Options{Precision: precision})
	if err != nil {
		panic(err) // as these have all three rates
	}
	for _, p := range t.list {
		o := network.Op{Class: network.Product, Count: 1, Rows: p.rows, Inner: p.inner, Cols: p.cols, Weight: true}
		list = append(list, c.Op(o, network.Forward, 1).Seconds())
	}
	return list
}

// least returns the least value of a function with one minimum, by golden section.
func least(from, to float64, f func(float64) float64) float64 {
	const golden, steps = 0.6180339887498949, 22
	a, b := to-golden*(to-from), from+golden*(to-from)
	fa, fb := f(a), f(b)
	for range steps {
		if fa < fb {
			to, b, fb = b, a, fa
			a = to - golden*(to-from)
			fa = f(a)
		} else {
			from, a, fa = a, b, fb
			b = from + golden*(to-from)
			fb = f(b)
		}
	}
	return min(fa, fb)
}
