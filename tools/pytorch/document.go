package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
)

// A kernel is timed under the same name by exec/kernels' BenchmarkKernels and by
// kernels.py.
type kernel struct {
	name, title, shape string
	times              int     // in a round
	gflop              float64 // of its products, forward and backward; 0 without products
}

var kernels = []kernel{
	{"block", "GPT-2 block", "8 × 128 tokens, hidden 768, 12 heads", 2, 44.7},
	{"attention", "attention without its projections", "8 × 128 tokens, 12 heads of 64", 10, 1.2},
	{"norm", "layer norm", "1024 × 768", 30, 0},
	{"GELU", "GELU", "1024 × 3072", 10, 0},
	{"head", "head, with its norm and loss", "512 × 768, 50257 words", 1, 118.6},
	{"entropy", "cross entropy", "512 × 50257", 1, 0},
	{"embedding", "embedding", "8 × 128 tokens of 50257, hidden 768", 10, 0},
	{"conv56", "convolution 3×3", "4 images, 56 × 56, 64 → 64", 5, convolution(4, 56, 64)},
	{"conv28", "convolution 3×3", "4 images, 28 × 28, 128 → 128", 5, convolution(4, 28, 128)},
	{"conv14", "convolution 3×3", "4 images, 14 × 14, 256 → 256", 5, convolution(4, 14, 256)},
	{"conv7", "convolution 3×3", "4 images, 7 × 7, 512 → 512", 5, convolution(4, 7, 512)},
	{"vgg", "VGG16's convolutions, ReLU and pooling", "16 images, 32 × 32", 2, 30.0},
	{"Adam", "Adam", "10.24 million parameters", 3, 0},
	{"step", "step of a small GPT-2 with Adam", "8 × 64 tokens, 4 blocks, hidden 256, 1000 words", 3, 0},
}

// convolution returns the billions of operations of a forward and backward.
func convolution(n, size, channels int) float64 {
	return 3 * 2 * 9 * float64(n*size*size*channels*channels) / 1e9
}

const head = `# psim's kernels and PyTorch's

This page is the output of ` + "`make bench-pytorch`" + `: psim's kernels on gomlx's Go backend (%s, with
GOEXPERIMENT=simd) and on XLA (%s),
next to those of PyTorch %s (eager, one thread, matrices by %s), on one core of this
machine (%s). Its load, which is 1 where nothing else runs, was %s.
Every kernel is a forward and a backward: for psim the two programs that ` + "`psim exec`" + ` runs.
All sides run in turns, %d rounds each, on the same core. Milliseconds are of the CPU, user and
system, the garbage collector's among them: the median, and the least and the most of the
rounds. A ratio is the median of the rounds' ratios; above 1, PyTorch is faster. psim
adds a microbatch's gradients to the sums of those before it, PyTorch makes them anew.
On the Go backend, convolutions of wide layers go by tiles of fewer multiplications (Winograd), which round
more than sums of nine taps do: with 256 channels by 5e-7 of the results' deviation in tiles
of 2×2 and 1.6e-6 in tiles of 4×4 (images of 16 pixels and more), where the sums round by
1.4e-7 (exec/kernels, TestConvolutionRounding).

`

func printDocument(torch *side, xla bench, rows []row, loads []string) {
	plugin := notHad
	if xla.plugin != "" {
		plugin = "the plugin " + library(xla.plugin)
	}
	fmt.Printf(head, runtime.Version(), plugin, torch.version, torch.library, processor(),
		loads[0]+" after the first kernel and "+loads[len(loads)-1]+" after the last", rounds)
	columns := []table.Column[row]{
		{Head: "kernel", Left: true, Cell: func(r row) any { return r.title }},
		{Head: "shape", Left: true, Cell: func(r row) any { return r.shape }},
	}
	sides := []struct {
		name string
		of   func(row) []float64
	}{
		{"Go", func(r row) []float64 { return r.psim }},
		{"XLA", func(r row) []float64 { return r.xla }},
		{"PyTorch", func(r row) []float64 { return r.torch }},
	}
	for _, s := range sides {
		columns = append(columns, table.Column[row]{Head: s.name + " ms",
			Cell: func(r row) any { return spread(s.of(r)) }})
	}
	for _, s := range sides[:2] {
		columns = append(columns, table.Column[row]{Head: s.name + " / PyTorch", Cell: func(r row) any {
			if s.of(r) == nil {
				return notHad
			}
			return fmt.Sprintf("%.2f", r.ratio(s.of(r)))
		}})
	}
	for _, s := range sides {
		columns = append(columns, table.Column[row]{Head: s.name + " GFLOP/s",
			Cell: func(r row) any { return rate(r.gflop, s.of(r)) }})
	}
	table.Table[row]{Rows: rows, Columns: columns}.Markdown(os.Stdout)
}

// notHad stands where there is no plugin of XLA.
const notHad = "not had"

// library shortens the path of a library to its folder and its file's name.
func library(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// processor returns the name of the machine's processor.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

// load returns the mean number of programs that ran or waited for a core in the last minute, as the system says.
func load() string {
	said, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(said), " ")
	return cmp.Or(first, "unknown")
}

func spread(ms []float64) string {
	if ms == nil {
		return notHad
	}
	return fmt.Sprintf("%s (%s–%s)", digits(units.Median(ms)), digits(slices.Min(ms)), digits(slices.Max(ms)))
}

// digits prints three figures.
func digits(ms float64) string {
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.2f", ms)
}

func rate(gflop float64, ms []float64) string {
	if gflop == 0 || ms == nil {
		return "–"
	}
	return fmt.Sprintf("%.0f", gflop*1000/units.Median(ms))
}
