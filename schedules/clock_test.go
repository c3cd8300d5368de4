package schedules_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// clocked are the schedules whose forwards run by clock cycle.
var clocked = []string{"gpipe", "torchgpipe", "hw4"}

// cell is one forward of a clock cycle.
type cell struct{ microbatch, stage int }

// clockCycles lists the forwards of every clock cycle of a schedule, by stage: the
// cycles after the last forward are left out.
func clockCycles(t rapid.TB, schedule string, microbatches, stages int) [][]cell {
	o := ordertest.Order(t, schedule, stages, microbatches)
	placed, err := o.Cycles()
	require.NoError(t, err)
	var cycles [][]cell
	for _, c := range placed {
		var cells []cell
		for _, a := range c {
			if a.Kind == graph.Forward {
				cells = append(cells, cell{int(a.Microbatch), int(a.Stage)})
			}
		}
		if cells != nil {
			cycles = append(cycles, cells)
		}
	}
	return sorted(cycles)
}

// sorted orders the cells of each cycle by stage: their order is free.
func sorted(cycles [][]cell) [][]cell {
	for _, c := range cycles {
		slices.SortFunc(c, func(a, b cell) int { return cmp.Compare(a.stage, b.stage) })
	}
	return cycles
}

// The clock cycles of two small pipelines, each a list of microbatch and stage.
func TestClockCyclesOfSmallPipelines(t *testing.T) {
	golden := readJSON[map[string][][][2]int](t, "clock_cycles.json")
	require.Len(t, golden, 2)
	for name, size := range map[string][2]int{"m6_n2": {6, 2}, "m3_n3": {3, 3}} {
		var want [][]cell
		for _, cycle := range golden[name] {
			var cells []cell
			for _, c := range cycle {
				cells = append(cells, cell{c[0], c[1]})
			}
			want = append(want, cells)
		}
		for _, schedule := range clocked {
			require.Equal(t, sorted(want), clockCycles(t, schedule, size[0], size[1]), "%s %s", schedule, name)
		}
	}
}

// Cycle k holds every microbatch i on stage j with i + j = k, and nothing else.
func TestClockCycleLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n := rapid.IntRange(1, 30).Draw(t, "m"), rapid.IntRange(1, 30).Draw(t, "n")
		cycles := clockCycles(t, rapid.SampledFrom(clocked).Draw(t, "schedule"), m, n)
		require.Len(t, cycles, m+n-1)
		seen := map[cell]bool{}
		for k, cycle := range cycles {
			require.NotEmpty(t, cycle)
			for _, c := range cycle {
				require.Equal(t, k, c.microbatch+c.stage)
				require.True(t, c.microbatch >= 0 && c.microbatch < m && c.stage >= 0 && c.stage < n)
				require.False(t, seen[c], "%v appears twice", c)
				seen[c] = true
			}
		}
		require.Len(t, seen, m*n)
	})
}
