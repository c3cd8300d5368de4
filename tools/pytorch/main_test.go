package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both sides know every kernel of the table by its name, and no other.
func TestKernels(t *testing.T) {
	var names []string
	for _, k := range kernels {
		names = append(names, k.name)
	}
	of := func(text, pattern string) (found []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		return found
	}
	require.ElementsMatch(t, names, of(script, `(?m)^    "(\w+)": `))
	benchmarks, err := os.ReadFile("../../exec/kernels/kernels_test.go")
	require.NoError(t, err)
	require.ElementsMatch(t, names, of(string(benchmarks), `\{(?:name: )?"(\w+)", (?:samples|input|layers|\d)`))
}

// The ratio is of a pair of runs, not of the best ones.
func TestRatio(t *testing.T) {
	r := row{psim: []float64{10, 30, 22}, torch: []float64{10, 10, 11}}
	require.Equal(t, 2.0, r.ratio(r.psim))
	require.Equal(t, "22.0 (10.0–30.0)", spread(r.psim))
	require.Equal(t, "4", rate(0.088, r.psim))
	require.Equal(t, "–", rate(0, r.psim))
	require.Equal(t, "not had", spread(r.xla))
	require.Equal(t, "–", rate(1, r.xla))
}

// Runs of a form are one row, and the first form is what the others are compared with.
func TestReadForms(t *testing.T) {
	list, err := readForms(kernel{name: "norm"}, "BenchmarkForms/norm/memory\t 2\t 99 ns/op\t 9.0 cpu-ms/op\n"+
		"BenchmarkForms/norm/in_use\t 2\t 99 ns/op\t 4.0 cpu-ms/op\n"+
		"BenchmarkForms/norm/in_use\t 2\t 99 ns/op\t 6.0 cpu-ms/op\n"+
		"BenchmarkForms/norm/sums_along_axes\t 2\t 99 ns/op\t 15 cpu-ms/op\nPASS\n")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "in use", list[0].name)
	require.Equal(t, []float64{4, 6}, list[0].ms)
	require.Equal(t, "sums along axes", list[1].name)
	require.Equal(t, 5.0, list[1].used)
}
