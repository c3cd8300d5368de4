package session

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/collectives"
	"psim/schedules/collective"
)

// A ring over two ranks has four tasks on its longest path. Its predicted time is theirs, plus
// the time by which a run whose tasks did nothing took longer.
func TestPredictCollective(t *testing.T) {
	g, err := collective.Call{Collective: collective.RingAllReduce, Ranks: 2, Length: 8, Element: 4}.Graph()
	require.NoError(t, err)
	tasks := slices.Repeat([]time.Duration{time.Millisecond}, g.Len())
	for _, c := range []struct {
		cores         int
		handing, want time.Duration
	}{
		{2, 4 * time.Millisecond, 4 * time.Millisecond},
		{2, 6 * time.Millisecond, 6 * time.Millisecond},
		{2, time.Millisecond, 4 * time.Millisecond}, // at least the time of the tasks
		{1, 8 * time.Millisecond, 8 * time.Millisecond},
	} {
		got, err := predictCollective(collectives.BenchmarkResult{Graph: g, Alone: tasks, Passed: tasks,
			Empty: c.handing, Cores: c.cores})
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%+v", c)
	}
}
