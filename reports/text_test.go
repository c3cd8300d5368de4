package reports_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports"
	"psim/reports/picture"
	"psim/results"
	"psim/schedules/graph"
)

func TestGantt(t *testing.T) {
	c := unit()
	c.send = 3 * ms
	for name, trace := range map[string]*graph.Trace{
		"gantt-1f1b": run(t, "1f1b", 4, 8, unit()), "gantt-gpipe": run(t, "gpipe", 4, 8, times{f: ms, b: ms}),
		"gantt-messages": run(t, "1f1b", 4, 8, c), "gantt-dense": run(t, "1f1b", 8, 64, unit()),
		"gantt-ddp": ddp(t), "gantt-split": split(t), "gantt-ring": ring(t, 4),
		"gantt-still": run(t, "1f1b", 2, 2, times{}), "gantt-100": run(t, "1f1b", 100, 8, unit()),
	} {
		var b bytes.Buffer
		require.NoError(t, picture.Gantt(&b, trace, picture.GanttOptions{}))
		golden.Equal(t, name+".txt", b.Bytes())
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 81, name)
		}
	}
}

// TestGanttShares checks that a dense row tells how the time was spent: the
// columns alone would show every third task, always of the same kind.
func TestGanttShares(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, picture.Gantt(&b, run(t, "1f1b", 8, 64, unit()), picture.GanttOptions{}))
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "rank") {
			break
		}
		require.InDelta(t, 64.0/213*71, strings.Count(line, "F"), 2)
		require.InDelta(t, 128.0/213*71, strings.Count(line, "B"), 2)
	}
}

func TestTable(t *testing.T) {
	c := unit()
	c.send, c.optimizer = 3*ms, 5*ms
	measured := result(run(t, "1f1b", 2, 1, c), nil)
	measured.Kind, measured.Name, measured.TensorParallel = results.Measured, "1f1b", 4
	for name, r := range map[string]results.Result{
		"table":          result(run(t, "1f1b", 4, 8, c), []int64{8e9, 8e9, 8e9, 8e9}),
		"table-ddp":      result(ddp(t), nil),
		"table-64":       result(run(t, "1f1b", 64, 128, c), nil),
		"table-measured": measured,
		"table-split":    result(split(t), nil),
		"table-ring":     result(ring(t, 4), nil),
	} {
		var b bytes.Buffer
		require.NoError(t, reports.WriteResult(&b, r))
		golden.Equal(t, name+".txt", b.Bytes())
	}
	var b bytes.Buffer
	require.NoError(t, reports.WriteResultCSV(&b, result(ddp(t), nil)))
	golden.Equal(t, "result.csv", b.Bytes())
}

func TestMemoryVerdict(t *testing.T) {
	trace := run(t, "1f1b", 4, 8, unit()) // peaks 9, 7, 5 and 3 GB
	unlimited := result(trace, nil)
	require.True(t, unlimited.FitsMemory)
	limited := result(trace, []int64{80e9, 80e9, 80e9, 80e9})
	require.EqualValues(t, 80e9, limited.Ranks[3].MemoryCapacity)
	for want, r := range map[string]results.Result{
		"the highest peak is 9.00 GB, on rank 0 (no limit known)":         unlimited,
		"fits; the highest peak is 9.00 GB of 80.0 GB, on rank 0":         limited,
		"does not fit; the highest peak is 9.00 GB of 8.00 GB, on rank 0": result(trace, []int64{8e9, 8e9, 8e9, 8e9}),
		"does not fit; the highest peak is 9.00 GB, on rank 0\n":          {Kind: results.Measured, Ranks: []results.RankResult{{PeakMemory: 9e9}}},
	} {
		var b bytes.Buffer
		require.NoError(t, reports.WriteResult(&b, r))
		require.Contains(t, b.String(), want)
	}
}
