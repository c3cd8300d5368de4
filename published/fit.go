package published

import (
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// A constant is a number of a machine that is fitted: it is written by format,
// and searched from start on.
type constant struct {
	format string // such as `launch = "%.2fus"`
	start  float64
}

// A fit says which constants of a machine are fitted to which rows.
type fit struct {
	file, head string
	constants  []constant
	rows       []record
	predict    func(r record, machine string) (Row, error)
}

// fits lists the machines of testdata: vTrain's is fitted to the rows that are marked
// as used, Korthikanti's A100 to the four rows with full recomputation.
func fits() []fit {
	used := slices.DeleteFunc(records("vtrain_single_node.csv"), func(r record) bool { return !r.odd() })
	return []fit{{
		file: "vtrain_machine.toml",
		head: `# Fitted to every second row of vtrain_single_node.csv by make fit.
[machine]
device = "a100-80gb-sxm"
devices_per_node = 8
host.waits = true
compute.serial_tiles = false
compute.half_rows = 0
`,
		constants: []constant{
			{`compute.efficiency = %.3f`, 0.88},
			{`compute.unaligned = %.3f`, 0.5},
			{`host.operation = "%.2fus"`, 51.2},
			{`host.task = "%.3fms"`, 0.58},
		},
		rows: used, predict: record.iteration,
	}, {
		file: "korthikanti_machine.toml",
		head: `# Fitted to the four rows of korthikanti.csv with full recomputation by make fit.
[machine]
device = "a100-80gb-sxm"
devices_per_node = 8
network = "ib-hdr"
nics_per_node = 8
`,
		constants: []constant{
			{`compute.flops = "%.1fTFLOP/s"`, 250},
			{`compute.launch = "%.2fus"`, 10},
		},
		rows:    records("korthikanti.csv"),
		predict: func(r record, machine string) (Row, error) { return r.megatron(machine, false) },
	}}
}

// Fit writes the machines that are fitted to published rows into a folder, and a table of
// the constants of stacks. It takes up to two hours.
func Fit(folder string) error {
	if err := fitStacks(folder); err != nil {
		return err
	}
	for _, f := range fits() {
		best := descend(len(f.constants), 25, func(x []float64) float64 { return f.error(f.machine(x)) })
		if err := os.WriteFile(filepath.Join(folder, f.file), []byte(f.machine(best)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// machine writes a machine file with the constants at so many times their start, by
// logarithm.
func (f fit) machine(x []float64) string {
	var lines []string
	for i, c := range f.constants {
		lines = append(lines, fmt.Sprintf(c.format, c.start*math.Exp(x[i])))
	}
	return f.head + strings.Join(lines, "\n") + "\n"
}

// error sums the absolute logarithms of predicted over published, on two cores.
func (f fit) error(machine string) (sum float64) {
	list := make([]float64, len(f.rows))
	var wait sync.WaitGroup
	for worker := range 2 {
		wait.Go(func() {
			for i := worker; i < len(list); i += 2 {
				row, err := f.predict(f.rows[i], machine)
				list[i] = row.Error()
				if err != nil { // a constant that is out of range
					list[i] = math.MaxFloat64
				}
			}
		})
	}
	wait.Wait()
	for _, e := range list {
		sum += math.Abs(math.Log1p(e))
	}
	return sum
}

// descend looks for a minimum from zero on: along every axis with a step that
// grows where it helps and shrinks where it does not, and in random directions.
func descend(n, rounds int, f func([]float64) float64) []float64 {
	x, step := make([]float64, n), slices.Repeat([]float64{0.3}, n)
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
				y := slices.Clone(x)
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
			y, width := slices.Clone(x), math.Exp(-2-4*random.Float64())
			for i := range y {
				y[i] += width * random.NormFloat64()
			}
			try(y)
		}
	}
	return x
}
