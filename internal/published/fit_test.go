package published

import (
	"flag"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Machines that were fitted are written again with
//
//	go test ./internal/published -run TestFit -fit -timeout 2h
var fitAgain = flag.Bool("fit", false, "fit machines to published rows again, and write their files")

// A constant is a number of a machine that is fitted: it is written by format,
// and searched from start on.
type constant struct {
	format string // such as `launch = "%.2fus"`
	start  float64
}

// fitMachine writes a machine file with the constants that make the mean of the
// absolute errors' logarithms over rows the least. template has a line "$" for
// every section's constants.
func fitMachine(t *testing.T, path, head string, constants []constant, errors func(machine string) []float64) {
	t.Helper()
	if !*fitAgain {
		t.Skip("machines are fitted again with -fit")
	}
	machine := func(x []float64) string {
		var lines []string
		for i, c := range constants {
			lines = append(lines, fmt.Sprintf(c.format, c.start*math.Exp(x[i])))
		}
		return head + strings.Join(lines, "\n") + "\n"
	}
	best := descend(len(constants), 25, func(x []float64) float64 {
		sum := 0.0
		for _, e := range errors(machine(x)) {
			sum += math.Abs(math.Log1p(e))
		}
		return sum
	})
	require.NoError(t, os.WriteFile(path, []byte(machine(best)), 0o644))
	t.Log(machine(best))
}

// descend looks for a minimum from zero on: along every axis with a step that
// grows where it helps and shrinks where it does not, and in random directions.
func descend(n, rounds int, f func([]float64) float64) []float64 {
	x, step := make([]float64, n), make([]float64, n)
	for i := range step {
		step[i] = 0.3
	}
	best, random := f(x), rand.New(rand.NewSource(1))
	try := func(y []float64) bool {
		v := f(y)
		if v < best {
			best, x = v, y
			return true
		}
		return false
	}
	for range rounds {
		for i := range x {
			moved := false
			for _, sign := range []float64{1, -1} {
				y := append([]float64(nil), x...)
				y[i] += sign * step[i]
				if moved = try(y); moved {
					step[i] *= 1.5 * sign
					break
				}
			}
			if !moved {
				step[i] *= 0.5
			}
		}
		for range n {
			y, width := append([]float64(nil), x...), math.Exp(-2-4*random.Float64())
			for i := range y {
				y[i] += width * random.NormFloat64()
			}
			try(y)
		}
	}
	return x
}

// inParallel is f of every index.
func inParallel(n int, f func(i int) float64) []float64 {
	list := make([]float64, n)
	var wait sync.WaitGroup
	for worker := range 2 {
		wait.Go(func() {
			for i := worker; i < n; i += 2 {
				list[i] = f(i)
			}
		})
	}
	wait.Wait()
	return list
}

// TestFitVTrain fits a machine to the rows that are marked as used.
func TestFitVTrain(t *testing.T) {
	var rows []record
	for i, r := range records("vtrain_single_node.csv") {
		if vtrainUsed(i) {
			rows = append(rows, r)
		}
	}
	head := `# Fitted to every second row of vtrain_single_node.csv by
# go test ./internal/published -run TestFitVTrain -fit
[machine]
device = "a100-80gb-sxm"
devices_per_node = 8
host.waits = true
`
	constants := []constant{
		{`compute.half_rows = %.1f`, 30},
		{`compute.unaligned = %.3f`, 0.3},
		{`host.operation = "%.2fus"`, 50},
		{`host.task = "%.3fms"`, 0.5},
	}
	fitMachine(t, "testdata/vtrain_machine.toml", head, constants, func(machine string) []float64 {
		return inParallel(len(rows), func(i int) float64 {
			row, err := rows[i].iteration(machine)
			if err != nil { // a constant that is out of range
				return math.MaxFloat64
			}
			return row.Error()
		})
	})
}

// TestFitKorthikanti fits an A100 to the four rows with full recomputation.
func TestFitKorthikanti(t *testing.T) {
	rows := records("korthikanti.csv")
	head := `# Fitted to the rows of korthikanti.csv with full recomputation by
# go test ./internal/published -run TestFitKorthikanti -fit
[machine]
device = "a100-80gb-sxm"
devices_per_node = 8
network = "ib-hdr"
nics_per_node = 8
`
	constants := []constant{
		{`compute.flops = "%.1fTFLOP/s"`, 250},
		{`compute.launch = "%.2fus"`, 10},
	}
	fitMachine(t, "testdata/korthikanti_machine.toml", head, constants, func(machine string) []float64 {
		return inParallel(len(rows), func(i int) float64 {
			row, err := rows[i].megatron(machine, false)
			if err != nil { // a constant that is out of range
				return math.MaxFloat64
			}
			return row.Error()
		})
	})
}
