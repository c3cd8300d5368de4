package schedules_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
)

// sorted orders the cells of each cycle by stage: their order is free.
func sorted(cycles [][]schedules.Cell) [][]schedules.Cell {
	for _, c := range cycles {
		slices.SortFunc(c, func(a, b schedules.Cell) int { return cmp.Compare(a.Stage, b.Stage) })
	}
	return cycles
}

func TestClockCyclesOfTheCourse(t *testing.T) {
	golden := readJSON[map[string][][][2]int](t, "clock_cycles.json")
	require.Len(t, golden, 2)
	for name, size := range map[string][2]int{"m6_n2": {6, 2}, "m3_n3": {3, 3}} {
		var want [][]schedules.Cell
		for _, cycle := range golden[name] {
			var cells []schedules.Cell
			for _, c := range cycle {
				cells = append(cells, schedules.Cell{Microbatch: c[0], Stage: c[1]})
			}
			want = append(want, cells)
		}
		require.Equal(t, sorted(want), sorted(schedules.ClockCycles(size[0], size[1])), name)
	}
}

func TestClockCycleLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n := rapid.IntRange(1, 30).Draw(t, "m"), rapid.IntRange(1, 30).Draw(t, "n")
		cycles := schedules.ClockCycles(m, n)
		require.Len(t, cycles, m+n-1)
		seen := map[schedules.Cell]bool{}
		for k, cycle := range cycles {
			require.NotEmpty(t, cycle)
			for _, c := range cycle {
				require.Equal(t, k, c.Microbatch+c.Stage)
				require.True(t, c.Microbatch >= 0 && c.Microbatch < m && c.Stage >= 0 && c.Stage < n)
				require.False(t, seen[c], "%v is there twice", c)
				seen[c] = true
			}
		}
		require.Len(t, seen, m*n)
	})
}

func TestClockCyclesOfNothing(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {0, 3}, {3, 0}, {-1, 2}, {2, -1}} {
		require.Empty(t, schedules.ClockCycles(size[0], size[1]), "%v", size)
	}
}
