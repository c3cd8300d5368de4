package published

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel"
	"psim/internal/formula"
)

// attentionWidths names the device whose rows say how much slower narrow heads are, where a
// device's own have heads of one width only.
var attentionWidths = map[string]string{"b200-180gb-sxm": "gb300-nvl72", "gb200-nvl72": "gb300-nvl72", "mi300x": "mi355x", "mi250x": "mi355x"}

// attentionAs names the device whose values another has that has no rows to be fitted to.
var attentionAs = map[string]string{
	"v100-16gb-sxm": "v100-32gb-sxm", "v100-16gb-pcie": "v100-32gb-sxm", "v100-32gb-pcie": "v100-32gb-sxm",
	"t4": "v100-32gb-sxm", "rtx-2080ti": "v100-32gb-sxm", "p40": "p100",
	"a100-40gb-sxm": "a100-80gb-sxm", "a100-40gb-pcie": "a100-80gb-sxm", "a100-80gb-pcie": "a100-80gb-sxm",
	"a10g": "rtx-a5000", "rtx-3090": "rtx-a5000", "rtx-a6000": "rtx-a5000", "l4": "rtx-a5000", "l40": "rtx-a5000", "l40s": "rtx-a5000",
	"rtx-4090d": "rtx-4090", "rtx-4070": "rtx-4090", "b300-270gb-sxm": "gb300-nvl72", "mi325x": "mi300x",
	"h200-141gb-sxm": "h100-80gb-sxm", "h800-80gb-sxm": "h100-80gb-sxm", "h100-96gb-sxm": "h100-80gb-sxm",
	"tpu-v3": "tpu-v5p", "tpu-v4": "tpu-v5p", "tpu-v5e": "tpu-v5p", "tpu-v6e": "tpu-v5p",
}

// attentionKept lists devices beside whose values the constants of stacks were fitted, so that
// they stay as they were rounded then: within a percent of the fit.
var attentionKept = []string{"a100-80gb-sxm", "h100-80gb-sxm"}

// The catalog's attention and half_head are the fit to the rows that count, to their last
// digit.
func TestFittedAttention(t *testing.T) {
	all := timedAttention(t)
	for name := range devicesFitted(t, all) {
		attention, half := all.fit(t, name)
		t.Logf("%s: attention = %.3f, half_head = %.0f", name, attention, half)
		d := all.device(t, name)
		switch {
		case all.elsewhere(t, name):
		case slices.Contains(attentionKept, name):
			require.InEpsilon(t, attention/(1+half/128), d.Attention/(1+d.HalfHead/128), 0.01, name)
		default:
			require.InDelta(t, attention, d.Attention, 5.1e-4, name)
			require.Equal(t, half, d.HalfHead, name)
		}
	}
}

// Devices without rows have the attention and half_head of the device that the source names.
func TestFittedAttentionOfOthers(t *testing.T) {
	all := timedAttention(t)
	fitted := devicesFitted(t, all)
	for name, as := range attentionAs {
		from, d := all.device(t, as), catalogDevice(t, name)
		if all.elsewhere(t, as) {
			from.Attention, from.HalfHead = all.fit(t, as)
		}
		require.InDelta(t, from.Attention, d.Attention, 5.1e-4, name)
		require.Equal(t, from.HalfHead, d.HalfHead, name)
		require.False(t, fitted[name], "%s has rows of its own", name)
	}
}

// devicesFitted lists the devices with rows that count.
func devicesFitted(t *testing.T, all timings) map[string]bool {
	fitted := map[string]bool{}
	for _, r := range all.of("fit") {
		fitted[r.text("device")] = true
	}
	require.Greater(t, len(fitted), 10)
	return fitted
}

// A timing is a row of attention.csv with what prices it.
type timing struct {
	row
	fusedAttention
	heads            int64
	masked, backward bool
	flops, rate      float64 // published, in TFLOP/s
}

// timings are rows, whatever their use.
type timings []timing

// timedAttention reads them.
func timedAttention(t *testing.T) (all timings) {
	of := *table("attention")
	of.Where = ""
	for _, r := range rowsOf(t, &of) {
		number := func(expression string) float64 {
			x, err := formula.Number(expression, r)
			require.NoError(t, err)
			return x
		}
		priced, err := r.attentionOn()
		require.NoError(t, err)
		backward, err := r.holds("backward")
		require.NoError(t, err)
		all = append(all, timing{r, priced, int64(number("batch")), r.text("mask") != "no mask", backward, number("flops"), number(of.Published)})
	}
	return all
}

// of lists those of some uses.
func (all timings) of(uses ...string) timings {
	return slices.DeleteFunc(slices.Clone(all), func(r timing) bool { return !slices.Contains(uses, r.text("use")) })
}

// device returns the one of some rows, or of the catalog.
func (all timings) device(t *testing.T, name string) costmodel.Device {
	if all.elsewhere(t, name) {
		return all.first(name).fusedAttention.device
	}
	return catalogDevice(t, name)
}

// elsewhere reports whether the catalog lacks a device that has rows.
func (all timings) elsewhere(t *testing.T, name string) bool {
	if all.first(name) == nil {
		return false
	}
	like, err := all.first(name).Value("like")
	require.NoError(t, err)
	return like != ""
}

// first returns the first row of a device, if it has any.
func (all timings) first(name string) *timing {
	i := slices.IndexFunc(all, func(r timing) bool { return r.text("device") == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Attention of stack megatron-te on Hopper is the mean of logarithms over cuDNN's rows of 128
// features, over what its products reach; half_head, to its last digit, comes from rows that
// differ in the width of heads.
func TestFittedAttentionOfStack(t *testing.T) {
	all := timedAttention(t)
	half, found := all.halfHead(t, "h100-80gb-sxm", "megatron-te")
	require.True(t, found)
	sum, n := 0., 0.
	for _, r := range all.of("megatron-te") {
		if r.text("features") == "128" {
			sum, n = sum+math.Log(r.wideRate(t, half)*r.fusedAttention.device.Efficiency.BF16), n+1
		}
	}
	for _, s := range configs.Stacks() {
		for _, chip := range []string{"h100", "h200", "h800"} {
			if s.Name != "megatron-te" {
				continue
			}
			var efficiency, attention, halfHead float64
			for _, set := range s.Devices[chip] {
				fmt.Sscanf(set, "machine.compute.efficiency = %g", &efficiency)
				fmt.Sscanf(set, "machine.compute.attention = %g", &attention)
				fmt.Sscanf(set, "machine.compute.half_head = %g", &halfHead)
			}
			require.InDelta(t, math.Exp(sum/n)/efficiency, attention, 5.1e-3, chip)
			require.Equal(t, half, halfHead, chip)
		}
	}
}

// Attention of stack pytorch-fsdp on A100 is the mean of logarithms over the rows of its kernel, over what its
// products reach, with the device's half_head; on Hopper it is as much of the device's own.
func TestFittedAttentionOfFSDP(t *testing.T) {
	all := timedAttention(t)
	sum, n := 0., 0.
	for _, r := range all.of("pytorch-fsdp") {
		sum, n = sum+math.Log(r.wideRate(t, r.fusedAttention.device.HalfHead)), n+1
	}
	a100, h100 := catalogDevice(t, "a100-80gb-sxm"), catalogDevice(t, "h100-80gb-sxm")
	rate := math.Exp(sum / n)
	of := map[string]float64{"a100": rate * a100.Efficiency.BF16, "h100": rate / a100.Attention * h100.Attention * h100.Efficiency.BF16}
	for _, s := range configs.Stacks() {
		for chip, want := range of {
			if s.Name != "pytorch-fsdp" {
				continue
			}
			var efficiency, attention float64
			for _, set := range s.Devices[chip] {
				fmt.Sscanf(set, "machine.compute.efficiency = %g", &efficiency)
				fmt.Sscanf(set, "machine.compute.attention = %g", &attention)
			}
			require.InDelta(t, want/efficiency, attention, 2e-3, chip)
		}
	}
}

// fit returns the least squares of logarithms: first half_head over rows that
// differ in nothing but the width of heads, and then attention over the rows that count.
func (all timings) fit(t *testing.T, name string) (attention, half float64) {
	half = -1
	for _, as := range []string{name, attentionWidths[name]} {
		if h, found := all.halfHead(t, as, "fit", "widths"); half < 0 && found {
			half = h
		}
	}
	if half < 0 { // no row says; assumed
		half = all.device(t, name).HalfHead
	}
	sum, n := 0., 0.
	for _, r := range all.of("fit") {
		if r.text("device") == name {
			sum, n = sum+math.Log(r.wideRate(t, half)), n+1
		}
	}
	return math.Exp(sum / n), half
}

// halfHead looks for a whole number of features in rows of some uses, and reports whether
// there are rows of two widths.
func (all timings) halfHead(t *testing.T, name string, uses ...string) (best float64, found bool) {
	groups := map[string]timings{}
	for _, r := range all.of(uses...) {
		if r.text("device") == name {
			source, _, _ := strings.Cut(r.text("source"), ":") // what follows is the time of a row
			key := r.text("kernel") + r.text("tokens") + r.text("mask") + source
			groups[key] = append(groups[key], r)
		}
	}
	least := math.Inf(1)
	for half := 0.; half <= 256; half++ {
		squares := 0.
		for _, rows := range groups {
			if !slices.ContainsFunc(rows, func(r timing) bool { return r.text("features") != rows[0].text("features") }) {
				continue
			}
			found = true
			sum, sumSquares := 0., 0.
			for _, r := range rows {
				x := math.Log(r.wideRate(t, half))
				sum, sumSquares = sum+x, sumSquares+x*x
			}
			squares += sumSquares - sum*sum/float64(len(rows))
		}
		if squares < least {
			least, best = squares, half
		}
	}
	return best, found
}

// wideRate is the share of the rate of products that a row says wide heads reach, if narrow
// ones reach half of it with a number of features.
func (r timing) wideRate(t *testing.T, half float64) float64 {
	wide := r.fusedAttention
	wide.device.Attention, wide.device.HalfHead, wide.device.Launch = 1, half, 0
	took, err := wide.seconds(r.heads, r.masked, r.backward)
	require.NoError(t, err)
	return took * r.rate * 1e12 / r.flops
}

// docs/kernels.md has a line for every device with rows.
func TestAttentionInDocs(t *testing.T) {
	saved, err := os.ReadFile("../docs/kernels.md")
	require.NoError(t, err)
	table := attentionTable(t)
	require.True(t, strings.Contains(string(saved), table), "docs/kernels.md is to have:\n%s", table)
}

// attentionTable writes the devices that have rows in Markdown, with the mean error of those
// that they were fitted to, and the devices that have the same.
func attentionTable(t *testing.T) string {
	all := timedAttention(t)
	var b strings.Builder
	b.WriteString("| device | attention | half_head | TFLOP/s with 64 and 128 features | rows | mean error | kernel | rows of | as well |\n|---|---|---|---|---|---|---|---|---|\n")
	var names []string
	for _, r := range all.of("fit") {
		if name := r.text("device"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		d := all.device(t, name)
		if all.elsewhere(t, name) {
			d.Attention, d.HalfHead = all.fit(t, name)
		}
		products, err := d.Achievable("bf16")
		if err != nil {
			products, err = d.Achievable("fp16")
		}
		require.NoError(t, err)
		rate := func(features float64) float64 {
			padded := features
			if n := float64(d.HeadMultiple); n > 0 {
				padded = n * math.Ceil(features/n)
			}
			return products * d.Attention / (1 + d.HalfHead/padded) * features / padded / 1e12
		}
		n, off, kernels, sources := all.fitted(t, name)
		fmt.Fprintf(&b, "| %s | %.3f | %.0f | %.0f and %.0f | %d | %.1f %% | %s | %s | %s |\n", name, d.Attention, d.HalfHead, rate(64), rate(128), n, 100*off, kernels, sources, alsoAs(name))
	}
	return b.String()
}

// fitted counts the rows that a device is fitted to, with the mean size of their
// errors, their kernels and their sources.
func (all timings) fitted(t *testing.T, name string) (n int, off float64, kernels, sources string) {
	var k, s []string
	for _, r := range all.of("fit", "widths") {
		if r.text("device") != name {
			continue
		}
		source, _, _ := strings.Cut(r.text("source"), ",")
		k, s = append(k, r.text("kernel")), append(s, source)
		if r.text("use") == "fit" {
			var made DataPoint
			require.NoError(t, r.numbers(&made))
			n, off = n+1, off+math.Abs(made.Error())
		}
	}
	return n, off / float64(n), listed(k), listed(s)
}

// listed joins words, each once.
func listed(words []string) string {
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// alsoAs lists the devices with the values of another.
func alsoAs(name string) string {
	var list []string
	for other, as := range attentionAs {
		if as == name {
			list = append(list, other)
		}
	}
	return listed(list)
}
