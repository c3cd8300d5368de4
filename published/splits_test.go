package published

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of four rows that count, three have short sequences and are 10 % too slow, one has a long
// one: so few are shown whatever their classes hold. Of six, one with a long sequence is too
// few to say anything. Classes are in their order.
func TestSplitsByHand(t *testing.T) {
	row := func(class string, order int, predicted float64, used bool) DataPoint {
		return DataPoint{Published: 1, Predicted: predicted, Used: used, Facets: []Facet{{"tokens", class, order, false}, {"device", "one", 0, false}}}
	}
	rows := []DataPoint{
		row("long", 1, 0.8, false), row("short", 0, 1.1, false), row("short", 0, 1.1, false), row("short", 0, 1.1, false), row("long", 1, 5, true),
	}
	require.Equal(t, "by tokens: short +10.00 % (3 rows), long −20.00 % (1 row)", StudyResult{Splits: splits(rows)}.splitsText())
	rows = append(rows, row("short", 0, 1.1, false), row("short", 0, 1.1, false))
	require.Empty(t, splits(rows), "one class is no split")
	rows = append(rows, row("long", 1, 0.9, false), row("long", 1, 1.2, false))
	list := splits(rows)
	require.Len(t, list, 2)
	require.Equal(t, []string{"short", "long"}, []string{list[0].Class, list[1].Class})
	require.InDelta(t, 0.1, list[0].Sign, 1e-12)
	require.InDelta(t, (0.2+0.1+0.2)/3, list[1].MeanError, 1e-12)
	require.InDelta(t, (-0.2-0.1+0.2)/3, list[1].Sign, 1e-12)
	require.Equal(t, "by tokens: short +10.00 % (5 rows), long −3.33 % (3 rows)", StudyResult{Splits: list}.splitsText())
	var b strings.Builder
	StudyResult{Splits: list}.writeSplits(&b)
	require.Equal(t, "\n| by | | rows | mean | sign |\n|---|---|--:|--:|--:|\n| tokens | short | 5 | 10.00 % | +10.00 % |\n|  | long | 3 | 16.67 % | −3.33 % |\n", b.String())
}

// Every training run says what it is, and the errors of a table's rows are those of each
// of its splits together.
func TestSplitsOfRuns(t *testing.T) {
	r, err := replayed()
	require.NoError(t, err)
	runs := 0
	for _, table := range r.Tables {
		for _, row := range table.Replayed {
			if row.Stack != "" {
				require.GreaterOrEqual(t, len(row.Facets), 5, row.Label)
				runs++
			}
		}
		for _, s := range table.Splits {
			require.LessOrEqual(t, s.Rows, table.Compared)
			require.LessOrEqual(t, s.MeanError, table.WorstError+1e-12)
		}
	}
	require.Greater(t, runs, 100)
}
