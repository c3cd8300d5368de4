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
)

// attentionWidths names the device whose rows say how much slower narrow heads are, where a
// device's own have heads of one width only.
var attentionWidths = map[string]string{"b200-180gb-sxm": "gb300-nvl72", "gb200-nvl72": "gb300-nvl72", "mi300x": "mi355x", "mi250x": "mi355x"}

// attentionAs names the device whose values another has that has no rows to be fitted to.
var attentionAs = map[string]string{
	"v100-16gb-sxm": "v100-32gb-sxm", "v100-16gb-pcie": "v100-32gb-sxm", "v100-32gb-pcie": "v100-32gb-sxm",
	"t4": "v100-32gb-sxm", "rtx-2080ti": "v100-32gb-sxm", "p40": "p100",
	"a100-40gb-sxm": "a100-80gb-sxm", "a100-40gb-pcie": "a100-80gb-sxm", "a100-80gb-pcie": "a100-80gb-sxm",
	"a10g": "rtx-a5000", "rtx-3090": "rtx-a5000", "l4": "rtx-a5000", "l40": "rtx-a5000", "l40s": "rtx-a5000",
	"rtx-4090d": "rtx-4090", "b300-270gb-sxm": "gb300-nvl72", "mi325x": "mi300x",
	"h200-141gb-sxm": "h100-80gb-sxm", "h800-80gb-sxm": "h100-80gb-sxm",
	"tpu-v3": "tpu-v5p", "tpu-v4": "tpu-v5p", "tpu-v5e": "tpu-v5p", "tpu-v6e": "tpu-v5p",
}

// attentionKept lists devices beside whose values the constants of stacks were fitted, so that
// they stay as they were rounded then: within a percent of the fit.
var attentionKept = []string{"a100-80gb-sxm", "h100-80gb-sxm"}

// The catalog's attention and half_head are the fit to the rows that count, to their last
// digit, and of other devices those of the device that the source names.
func TestAttentionIsTheFit(t *testing.T) {
	fitted := map[string]bool{}
	for _, r := range attentionRows("fit") {
		fitted[r.text("device")] = true
	}
	require.Greater(t, len(fitted), 10)
	for name := range fitted {
		attention, half := attentionFit(t, name)
		t.Logf("%s: attention = %.3f, half_head = %.0f", name, attention, half)
		d, err := attentionDevice(name)
		require.NoError(t, err)
		switch {
		case attentionElsewhere[name] != "":
		case slices.Contains(attentionKept, name):
			require.InEpsilon(t, attention/(1+half/128), d.Attention/(1+d.HalfHead/128), 0.01, name)
		default:
			require.InDelta(t, attention, d.Attention, 5.1e-4, name)
			require.Equal(t, half, d.HalfHead, name)
		}
	}
	for name, as := range attentionAs {
		d, err := attentionDevice(name)
		require.NoError(t, err)
		from, err := attentionDevice(as)
		require.NoError(t, err)
		if attentionElsewhere[as] != "" {
			from.Attention, from.HalfHead = attentionFit(t, as)
		}
		require.InDelta(t, from.Attention, d.Attention, 5.1e-4, name)
		require.Equal(t, from.HalfHead, d.HalfHead, name)
		require.False(t, fitted[name], "%s has rows of its own", name)
	}
}

// Attention of stack megatron-te on Hopper is the mean of logarithms over cuDNN's rows of 128
// features, over what its products reach; half_head, to its last digit, comes from rows that
// differ in the width of heads.
func TestStackAttentionIsTheFit(t *testing.T) {
	half, found := halfHeadFit(t, "h100-80gb-sxm", "megatron-te")
	require.True(t, found)
	sum, n := 0., 0.
	for _, r := range attentionRows("megatron-te") {
		if r.text("features") == "128" {
			d, err := attentionDevice(r.text("device"))
			require.NoError(t, err)
			sum, n = sum+math.Log(wideRate(t, r, half)*d.Efficiency.BF16), n+1
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

// attentionFit returns the least squares of logarithms: first half_head over rows that
// differ in nothing but the width of heads, and then attention over the rows that count.
func attentionFit(t *testing.T, name string) (attention, half float64) {
	half = -1
	for _, as := range []string{name, attentionWidths[name]} {
		if h, found := halfHeadFit(t, as, "fit", "widths"); half < 0 && found {
			half = h
		}
	}
	if half < 0 { // no row says; assumed
		d, err := attentionDevice(name)
		require.NoError(t, err)
		half = d.HalfHead
	}
	sum, n := 0., 0.
	for _, r := range attentionRows("fit") {
		if r.text("device") == name {
			sum, n = sum+math.Log(wideRate(t, r, half)), n+1
		}
	}
	return math.Exp(sum / n), half
}

// halfHeadFit looks for a whole number of features in rows of some uses, and reports whether
// there are rows of two widths.
func halfHeadFit(t *testing.T, name string, uses ...string) (best float64, found bool) {
	groups := map[string][]record{}
	for _, r := range attentionRows(uses...) {
		if r.text("device") == name {
			table, _, _ := strings.Cut(r.text("source"), ":") // what follows is the time of a row
			key := r.text("kernel") + r.text("tokens") + r.text("mask") + table
			groups[key] = append(groups[key], r)
		}
	}
	least := math.Inf(1)
	for half := 0.; half <= 256; half++ {
		squares := 0.
		for _, rows := range groups {
			if !slices.ContainsFunc(rows, func(r record) bool { return r.text("features") != rows[0].text("features") }) {
				continue
			}
			found = true
			sum, sumSquares := 0., 0.
			for _, r := range rows {
				x := math.Log(wideRate(t, r, half))
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
// ones reach half of it with so many features.
func wideRate(t *testing.T, r record, half float64) float64 {
	d, err := attentionDevice(r.text("device"))
	require.NoError(t, err)
	d.Attention, d.HalfHead, d.Launch = 1, half, 0
	took, err := r.attentionTime(d)
	require.NoError(t, err)
	work, rate := r.attentionWork()
	return took.Seconds() * rate * 1e12 / work
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
	var b strings.Builder
	b.WriteString("| device | attention | half_head | TFLOP/s with 64 and 128 features | rows | mean error | kernel | rows of | as well |\n|---|---|---|---|---|---|---|---|---|\n")
	var names []string
	for _, r := range attentionRows("fit") {
		if name := r.text("device"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		d, err := attentionDevice(name)
		require.NoError(t, err)
		if attentionElsewhere[name] != "" {
			d.Attention, d.HalfHead = attentionFit(t, name)
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
		n, off, kernels, sources := attentionFitted(t, name)
		fmt.Fprintf(&b, "| %s | %.3f | %.0f | %.0f and %.0f | %d | %.1f %% | %s | %s | %s |\n", name, d.Attention, d.HalfHead, rate(64), rate(128), n, 100*off, kernels, sources, alsoAs(name))
	}
	return b.String()
}

// attentionFitted counts the rows that a device is fitted to, with the mean size of their
// errors, their kernels and their sources.
func attentionFitted(t *testing.T, name string) (n int, off float64, kernels, sources string) {
	var k, s []string
	for _, r := range attentionRows("fit", "widths") {
		if r.text("device") != name {
			continue
		}
		source, _, _ := strings.Cut(r.text("source"), ",")
		k, s = append(k, r.text("kernel")), append(s, source)
		if r.text("use") == "fit" {
			row, err := r.attention()
			require.NoError(t, err)
			n, off = n+1, off+math.Abs(row.Error())
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
