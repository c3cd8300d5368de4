package published

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// The search comes close to the minimum of a bent valley, whatever its start.
func TestDescend(t *testing.T) {
	x := descend(2, 60, func(x []float64) float64 {
		a, b := x[0]-0.7, x[1]+x[0]*x[0]
		return a*a + 10*b*b
	})
	require.InDelta(t, 0.7, x[0], 0.02)
	require.InDelta(t, -0.49, x[1], 0.03)
}

// The machines that are saved are of the form that a fit writes, and no constant of
// them can be changed by a tenth to come closer to the rows.
func TestFitted(t *testing.T) {
	f := fits()[1]
	best := f.error(korthikantiMachine)
	for _, x := range [][]float64{{0, 0}, {0.2, 0}, {0, -1}} {
		require.Greater(t, f.error(f.machine(x)), best)
	}
	require.Contains(t, korthikantiMachine, f.head)
	require.Contains(t, vtrainMachine, fits()[0].head)
}

// The catalog's rate and launch of a CS1390 core come as close to the forwards that they are
// fitted to, by least squares, as any a twentieth away do.
func TestFittedCore(t *testing.T) {
	squares := func(flops, launch float64) (sum float64) {
		for _, r := range records("cs1390_times.csv") {
			if r.text("part") != "forward" {
				continue
			}
			require.Equal(t, "yes", r.text("used"))
			row, err := r.courseTimeOn(fmt.Sprintf(`machine.compute.flops="%.3fGFLOP/s" machine.compute.launch="%.3fms"`, 10.6*flops, 44.8*launch))
			require.NoError(t, err)
			sum += row.Error() * row.Error()
		}
		return sum
	}
	best := squares(1, 1)
	for _, by := range [][2]float64{{1.05, 1}, {0.95, 1}, {1, 1.05}, {1, 0.95}, {1.05, 1.05}, {0.95, 0.95}} {
		require.Greater(t, squares(by[0], by[1]), best)
	}
	row, err := records("cs1390_times.csv")[5].courseTime()
	require.NoError(t, err)
	fitted, err := records("cs1390_times.csv")[5].courseTimeOn(`machine.compute.flops="10.6GFLOP/s" machine.compute.launch="44.8ms"`)
	require.NoError(t, err)
	require.Equal(t, fitted, row, "the catalog has these")
}

// The host time of messages of Megatron's stacks is the one with which the rows that are
// marked are right on average, to a twentieth of a millisecond.
func TestHostTimeOfMessages(t *testing.T) {
	off := func(host time.Duration) (sum float64) {
		var model string
		for _, r := range records("zero_bubble.csv") {
			if r.text("model") == model {
				continue
			}
			model = r.text("model")
			for _, s := range []measuredSchedule{{name: "1f1b", column: "thr_1F1B"}, {name: "interleaved-1f1b", column: "thr_1F1BI", interleaved: true}} {
				row, err := r.measured(s, fmt.Sprintf("host_message = %q\n", host))
				require.NoError(t, err)
				sum += math.Log1p(row.Error())
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

// The constants of stacks come as close to their rows as make fit has found, to a twentieth
// of a point, and none of them can be changed by a tenth to come closer.
func TestFittedStacks(t *testing.T) {
	const flat = 0.0005
	fitted := records("stack_constants.csv")
	for _, f := range stackFits() {
		constants := f.catalog()
		x := make([]float64, len(constants))
		best := f.error(constants, x)
		for i, c := range constants {
			require.Equal(t, []string{f.stack, f.chip, c.key}, []string{fitted[0].text("stack"), fitted[0].text("chip"), fitted[0].text("key")})
			require.Less(t, best, fitted[0].number("off_fitted")+flat)
			fitted = fitted[1:]
			for _, by := range []float64{-0.1, 0.1} {
				x[i] = by
				require.Greater(t, f.error(constants, x), best-flat, "%s, %s, %s", f.stack, f.chip, c.key)
				x[i] = 0
			}
		}
	}
	require.Empty(t, fitted)
}
