package published

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of two sources that count, one has three rows, of which a constant was fitted to one: each
// has one vote. A third stands apart, and has none.
func TestSourcesByHand(t *testing.T) {
	row := func(source, site string, predicted float64, used bool) DataPoint {
		return DataPoint{Source: source, Site: site, Published: 1, Predicted: predicted, Used: used}
	}
	r := Report{Tables: []StudyResult{
		{Replayed: []DataPoint{row("one", "x", 1.1, false), row("one", "y", 0.7, false), row("one", "y", 9, true), {Published: 1, Predicted: 7}}},
		{Replayed: []DataPoint{row("two", "x", 1.06, false)}},
		{Replayed: []DataPoint{row("two", "z", 3, false)}, Apart: "without a stack"},
	}}
	r.Sources, r.Headline = r.bySource()
	require.Len(t, r.Sources, 3)
	require.Equal(t, []any{"one", 2, 3, 1, ""}, []any{r.Sources[0].Source, r.Sources[0].Sites, r.Sources[0].Rows, r.Sources[0].Fitted, r.Sources[0].Apart})
	require.InDelta(t, 0.2, r.Sources[0].MeanError, 1e-12)
	require.InDelta(t, 2, r.Sources[2].MeanError, 1e-12)
	require.Equal(t, "mean over 2 sources of each one's mean error 13.00 %; over their 3 rows, mean 15.33 % and median 10.00 %.", r.Headline.text())
	lines := r.notInMeans()
	require.Equal(t, "Apart, without a stack: 1 row (two).", lines[0])
	var b strings.Builder
	r.writeSources(&b)
	require.Contains(t, b.String(), "| one | 2 | 3 | 1 | 2 | 20.00 % | 20.00 % | 0.00 % | – |\n")
	require.NotContains(t, b.String(), "| two | 1 | 1 | 0 | 1 | 200.00 %")
	require.Nil(t, Report{}.Headline)
}

// Every training run with a stack has a source and a site, and so has every row of a table that stands
// apart; the same run is in one table only.
func TestRunsHaveSources(t *testing.T) {
	r, err := replayed()
	require.NoError(t, err)
	for _, table := range r.Tables {
		for _, row := range table.Replayed {
			if row.Stack != "" || table.Apart != "" {
				require.NotEmpty(t, row.Source, "%s: %s", table.Name, row.Label)
				require.NotEmpty(t, row.Site, "%s: %s", table.Name, row.Label)
			}
			if row.Source != "" && table.Apart == "" && table.Name != "llama3-405b-table-4" && table.Name != "deepseek-v3" {
				require.NotEmpty(t, row.Stack, "%s: %s has no stack, and counts", table.Name, row.Label)
			}
		}
	}
	collected, without := replayedTable(t, "runs-collected"), replayedTable(t, "runs-without-stack")
	require.Equal(t, []int{66, 11}, []int{collected.Rows, without.Rows})
	require.Equal(t, len(records("runs_collected.csv")), collected.Rows+without.Rows)
	require.Len(t, records("runs_unsaid.csv"), 39)
}
