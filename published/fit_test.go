package published

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// long skips a test that computes a fit again, unless PSIM_FITS asks for it: make fit-check.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("PSIM_FITS") == "" {
		t.Skip("a fit is computed again: make fit-check")
	}
}

// The search comes close to the minimum of a bent valley, whatever its start.
func TestDescend(t *testing.T) {
	x := descend(2, 60, func(x []float64) float64 {
		a, b := x[0]-0.7, x[1]+x[0]*x[0]
		return a*a + 10*b*b
	})
	require.InDelta(t, 0.7, x[0], 0.02)
	require.InDelta(t, -0.49, x[1], 0.03)
}

// The machines that are saved are of the form that a fit writes.
func TestMachinesOfFits(t *testing.T) {
	fits := 0
	for _, table := range tables() {
		if table.Fit == nil {
			continue
		}
		fits++
		saved := strings.Split(read("testdata/"+table.Machine), "\n")
		made := strings.Split(table.Fit.machine(make([]float64, len(table.Fit.Constants))), "\n")
		require.Len(t, saved, len(made), table.Name)
		for i := range made {
			key, value, _ := strings.Cut(made[i], " = ")
			if i < len(made)-1-len(table.Fit.Constants) {
				require.Equal(t, made[i], saved[i], table.Name)
				continue
			}
			savedKey, savedValue, _ := strings.Cut(saved[i], " = ")
			require.Equal(t, key, savedKey, table.Name)
			require.Equal(t, strings.Trim(value, `"0123456789.`), strings.Trim(savedValue, `"0123456789.`), table.Name)
		}
	}
	require.Equal(t, 2, fits)
}

// No constant of the A100 can be changed by a tenth to come closer to its rows.
func TestFittedMachine(t *testing.T) {
	of := table("korthikanti-2022-table-5")
	best := of.misfit(read("testdata/" + of.Machine))
	for _, x := range [][]float64{{0, 0}, {0.2, 0}, {0, -1}} {
		require.Greater(t, of.misfit(of.Fit.machine(x)), best)
	}
	require.Equal(t, math.MaxFloat64, of.misfit("[machine]\ndevice = \"nosuch\"\n"))
}

// The columns of data that are fitted are what make fit writes: those of a small table here,
// and all of them where fits are computed again.
func TestFittedColumns(t *testing.T) {
	columns := 0
	for _, of := range tables() {
		if of.Solve == nil {
			continue
		}
		columns += len(of.Solve)
		if of.Name != "zero-bubble-2023-table-4" && os.Getenv("PSIM_FITS") == "" {
			continue
		}
		text, err := of.solved()
		require.NoError(t, err)
		require.Equal(t, read("testdata/"+of.Data), string(text))
	}
	require.Equal(t, 4, columns)
}

// The catalog's rate and launch of a CS1390 core come as close to the forwards that they are
// fitted to, by least squares, as any a twentieth away do.
func TestFittedCore(t *testing.T) {
	squares := func(flops, launch float64) (sum float64) {
		for _, r := range rowsOf(t, table("cs1390-times")) {
			if r.text("part") != "forward" {
				continue
			}
			require.Equal(t, "yes", r.text("used"))
			r.over = []string{fmt.Sprintf("machine.compute.flops=%.3fGFLOP/s", 10.6*flops), fmt.Sprintf("machine.compute.launch=%.3fms", 44.8*launch)}
			var made DataPoint
			require.NoError(t, r.numbers(&made))
			sum += made.Error() * made.Error()
		}
		return sum
	}
	best := squares(1, 1)
	for _, by := range [][2]float64{{1.05, 1}, {0.95, 1}, {1, 1.05}, {1, 0.95}, {1.05, 1.05}, {0.95, 0.95}} {
		require.Greater(t, squares(by[0], by[1]), best)
	}
	var byCatalog, byFit DataPoint
	r := rowsOf(t, table("cs1390-times"))[5]
	require.NoError(t, r.numbers(&byCatalog))
	r.over = []string{"machine.compute.flops=10.6GFLOP/s", "machine.compute.launch=44.8ms"}
	require.NoError(t, r.numbers(&byFit))
	require.Equal(t, byFit, byCatalog, "the catalog has these")
}

// The host time of messages of Megatron's stacks is the one with which the rows that are
// marked are right on average, to a twentieth of a millisecond.
func TestFittedHostTimeOfMessages(t *testing.T) {
	rows := rowsOf(t, table("zero-bubble-2023-table-4-schedules"))
	off := func(host time.Duration) (sum float64) {
		for _, r := range rows {
			used, err := r.used()
			require.NoError(t, err)
			if used {
				e, err := r.with(change{Set: settings{"train.stack": "", "times.host_message": host.String()}}).logarithm()
				require.NoError(t, err)
				sum += e
			}
		}
		return sum
	}
	best := time.Duration(0)
	for step := time.Millisecond; step >= 10*time.Microsecond; step /= 2 {
		if off(best+step) > 0 { // still too fast
			best += step
		}
	}
	for _, s := range configs.Stacks() {
		for _, set := range s.Sets {
			if key, value, _ := strings.Cut(set, " = "); key == "times.host_message" || key == "machine.host.message" {
				host, err := time.ParseDuration(strings.Trim(value, `"`))
				require.NoError(t, err)
				require.InDelta(t, best, host, float64(50*time.Microsecond), s.Name)
			}
		}
	}
}

// stack_constants.csv has the constants of all fits as the catalog has them, and the number of
// their rows.
func TestStackConstantsAreTheCatalogs(t *testing.T) {
	saved := records("stack_constants.csv")
	fits, err := stackFits()
	require.NoError(t, err)
	for _, f := range fits {
		constants, err := f.catalog()
		require.NoError(t, err)
		for _, c := range constants {
			require.NotEmpty(t, saved)
			require.Equal(t, []string{f.Stack, f.Chip, c.key, c.at(0)}, []string{saved[0].text("stack"), saved[0].text("chip"), saved[0].text("key"), saved[0].text("catalog")})
			require.Equal(t, saved[0].count("rows"), len(f.rows))
			sites, err := f.sites()
			require.NoError(t, err)
			require.Equal(t, saved[0].count("sites"), sites)
			require.LessOrEqual(t, saved[0].number("off_fitted"), saved[0].number("off_catalog"))
			saved = saved[1:]
		}
	}
	require.Empty(t, saved)
}

// The constants of stacks come as close to their rows as make fit has found, to a twentieth
// of a point, and none of them can be changed by a tenth to come closer.
func TestFittedStacks(t *testing.T) {
	long(t)
	const flat = 0.0005
	saved := records("stack_constants.csv")
	fits, err := stackFits()
	require.NoError(t, err)
	for _, f := range fits {
		constants, err := f.catalog()
		require.NoError(t, err)
		x := make([]float64, len(constants))
		best := f.misfit(constants, x)
		for i, c := range constants {
			require.Less(t, best, saved[0].number("off_fitted")+flat)
			saved = saved[1:]
			for _, by := range []float64{-0.1, 0.1} {
				x[i] = by
				require.Greater(t, f.misfit(constants, x), best-flat, "%s, %s, %s", f.Stack, f.Chip, c.key)
				x[i] = 0
			}
		}
	}
}
