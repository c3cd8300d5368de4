package published

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/files"
	"psim/reports/chart"
	"psim/reports/picture"
)

// Every table has a name of its own, says where it is from, and is replayed to
// the end; the tables of a figure have one unit.
func TestCatalog(t *testing.T) {
	names, units := map[string]bool{}, map[string]string{}
	all, err := replayed()
	require.NoError(t, err)
	require.Len(t, all.Tables, len(tables()))
	for i, table := range tables() {
		require.False(t, names[table.Name], table.Name)
		names[table.Name] = true
		for _, text := range []string{table.Name, table.Title, string(table.Paper), string(table.Place), table.Figure} {
			require.NotEmpty(t, text, table.Name)
			require.NotContains(t, text, "|", "it stands in a Markdown table")
		}
		require.Equal(t, table.Title, chart.Shorten(table.Title, chart.Text(chart.LegendSize), chart.LegendRoom), "the legend of its figure names it")
		r := all.Tables[i]
		labels := map[string]bool{}
		for _, row := range r.Replayed {
			require.False(t, labels[row.Label], "%s: two rows %s", table.Name, row.Label)
			labels[row.Label] = true
			require.Equal(t, r.Replayed[0].Unit, row.Unit, table.Name)
		}
		unit, seen := units[table.Figure]
		require.True(t, !seen || unit == r.Replayed[0].Unit, "%s: another unit than the rest of the figure", table.Name)
		units[table.Figure] = r.Replayed[0].Unit
		require.Equal(t, r.Compared < r.Rows, r.Fitted, "%s: fitted tables have used rows, others none", table.Name)
	}
}

// Every description is in the list of tables, and every file of data is in use.
func TestTablesAreListed(t *testing.T) {
	files, err := fs.Glob(data, "tables/*.toml")
	require.NoError(t, err)
	require.Len(t, files, len(tables()))
	used := map[string]bool{}
	for _, table := range tables() {
		require.Contains(t, files, "tables/"+table.Name+".toml")
		used[table.Data], used[table.Machine] = true, true
		for _, l := range table.Lookups {
			used[l.File] = true
		}
	}
	for _, name := range []string{
		"ceilings.csv", "claims.csv", "stack_constants.csv", "stack_fits.toml", "runs_unsaid.csv", leftRowsFile, leftConstantsFile, // read by name
		"memory_rates.csv", "products.csv", "rates.csv", // that the catalog is fitted to, in tests
	} {
		used[name] = true
	}
	entries, err := fs.ReadDir(data, "testdata")
	require.NoError(t, err)
	for _, e := range entries {
		require.True(t, used[e.Name()], "testdata/%s: no table reads it", e.Name())
	}
}

// Every file of data begins with a comment that names its source.
func TestDataHasSources(t *testing.T) {
	files, err := fs.Glob(data, "testdata/*.csv")
	require.NoError(t, err)
	for _, file := range files {
		text, err := data.ReadFile(file)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(text, []byte("# ")), file)
		require.NotEmpty(t, records(strings.TrimPrefix(file, "testdata/")))
	}
}

// The 36 rates of the table are ours to the digit that is printed.
func TestZeroBubbleTable5(t *testing.T) {
	rows := replayedTable(t, "zero-bubble-2023-table-5").Replayed
	require.Len(t, rows, 36)
	for _, row := range rows {
		require.InDelta(t, row.Published, row.Predicted, 0.5e-4+1e-12, row.Label)
	}
}

func TestSelect(t *testing.T) {
	names := func(words ...string) (list []string) {
		tables, err := Select(words)
		require.NoError(t, err)
		for _, table := range tables {
			list = append(list, table.Name)
		}
		return list
	}
	require.Len(t, names(), len(tables()))
	require.Equal(t, []string{"zero-bubble-2023-table-5"}, names("zero-bubble-2023-table-5"))
	require.Subset(t, names("zero-bubble"), []string{"zero-bubble-2023-table-5", "zero-bubble-2023-table-5-interleaved"})
	_, err := Select([]string{"zero-bubble-2023-table-6"})
	require.ErrorContains(t, err, `unknown published table "zero-bubble-2023-table-6"; did you mean`)
	_, err = Select([]string{"zero-b"})
	require.Error(t, err)
}

// made is a table whose errors are known: +10 %, −20 %, and one that was used.
func made() Study {
	cells := func(label, published, predicted, used string) record {
		return record{cells: map[string]string{"label": label, "was": published, "is": predicted, "used": used}}
	}
	return Study{
		Name: "made-up", Title: "steps", Paper: "Nobody 2026", Place: "table 1", Figure: "made", Fitted: "one rate, from row b", Unit: "s",
		form: form{Label: "{label}", Published: "was", Predicted: "is", Used: `used == "yes"`},
		Parts: []part{
			{Name: "compute", When: `label == "a"`, Error: "0.12"},
			{Name: "communication", When: `label == "a"`, Error: "rest"},
		},
		Alternatives: []alternative{{Name: "two hosts", When: `label == "c"`, Predicted: "is + 10"}},
		rows:         []record{cells("a", "10", "11", ""), cells("b", "20", "200", "yes"), cells("c", "40", "32", "")},
	}
}

// The parts of a row's error add up to it.
func TestParts(t *testing.T) {
	split := 0
	for _, row := range replayedTable(t, "korthikanti-2022-table-5").Replayed {
		if row.Parts == nil {
			continue
		}
		split++
		sum := 0.0
		for _, p := range row.Parts {
			sum += p.Error
		}
		require.InDelta(t, row.Error(), sum, 1e-9, row.Label)
	}
	require.Equal(t, 2, split)
}

// Errors are absolute, over the rows that were not used.
func TestErrors(t *testing.T) {
	report, err := Replay(t.Context(), []Study{made()})
	require.NoError(t, err)
	r := report.Tables[0]
	require.InDelta(t, 0.15, r.MeanError, 1e-12)
	require.InDelta(t, 0.15, r.MedianError, 1e-12)
	require.InDelta(t, 0.2, r.WorstError, 1e-12)
	require.Equal(t, []any{"c", 3, 2, true}, []any{r.WorstRow, r.Rows, r.Compared, r.Fitted})

	var text, document, object bytes.Buffer
	require.NoError(t, report.WriteText(&text))
	require.Contains(t, text.String(), "  a    11.00 s    10.00 s    +10.00 %  compute +12.00 %, communication −2.00 %\n")
	require.Contains(t, text.String(), "  b    200.0 s    20.00 s    +900.00 %  used for the fit\n")
	require.Contains(t, text.String(), "−20.00 %  otherwise explained: two hosts +5.00 %\n")
	require.Contains(t, text.String(), "made-up  3     –      1       2         15.00 %  15.00 %  20.00 %  -\n")
	text.Reset()
	require.NoError(t, report.WriteSummary(&text))
	require.Contains(t, text.String(), "made-up  3     –      1       2         15.00 %  15.00 %  20.00 %  -\n\nErrors are of rows")
	require.NotContains(t, text.String(), "11.00 s")
	require.NoError(t, report.WriteMarkdown(&document, "pages"))
	require.Contains(t, document.String(), "](pages/tables.md)")
	require.NotContains(t, document.String(), "| 2 of 3 |")
	pages := report.Pages(".")
	require.Equal(t, []string{"tables.md", "made-up.md"}, []string{pages[0].Name, pages[1].Name})
	require.Contains(t, pages[0].Text, "| [made-up](made-up.md) |")
	require.Contains(t, pages[0].Text, "| 2 of 3 | 15.00 % | 15.00 % | 20.00 % | one rate, from row b | – |\n")
	require.Contains(t, pages[1].Text, "](made.png)")
	document.Reset()
	require.NoError(t, report.WriteMarkdown(&document, ""))
	require.Contains(t, document.String(), "| 2 of 3 | 15.00 % |")
	require.NoError(t, files.WriteJSON(&object, report))
	var read struct {
		Tables []map[string]any `json:"tables"`
	}
	require.NoError(t, json.Unmarshal(object.Bytes(), &read))
	require.Equal(t, []any{"made-up", 3., true}, []any{read.Tables[0]["name"], read.Tables[0]["rows"], read.Tables[0]["fitted"]})

	var drawn bytes.Buffer
	require.NoError(t, picture.Scatter(&drawn, picture.SVG, report.Figures()["made"]))
	require.Contains(t, drawn.String(), "hollow")
}

// A table without rows to compare, or with a number that has no relative error,
// is a mistake.
func TestNothingToCompare(t *testing.T) {
	for _, change := range []func(table *Study){
		func(table *Study) { table.Where = "false" },
		func(table *Study) { table.Used = "true" },
		func(table *Study) { table.Published = "0" },
	} {
		table := made()
		change(&table)
		_, err := Replay(t.Context(), []Study{table})
		require.ErrorContains(t, err, "made-up: ")
	}
}

// The error of a replay is that of the first row that cannot be predicted, however many rows
// are predicted at once, and names the row and what cannot be computed.
func TestReplayFails(t *testing.T) {
	table := made()
	table.Predicted = `pick(label == "a", 1, nosuch)`
	for range 20 {
		_, err := Replay(t.Context(), []Study{made(), table, made()})
		require.EqualError(t, err, `made-up: b: formula "pick(label == \"a\", 1, nosuch)": no column and no quantity nosuch`)
	}
	table.Label = "{label"
	_, err := Replay(t.Context(), []Study{table})
	require.ErrorContains(t, err, "a brace is not closed")
}

// An interrupt ends a replay before its next row, in the middle of a prediction too.
func TestReplayInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := Replay(ctx, tables())
	require.ErrorIs(t, err, context.Canceled)
	ctx, stop = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	start := time.Now()
	_, err = Replay(ctx, tables())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), 5*time.Second)
}

// What is done at once is done once each, and nothing is begun after what has failed.
func TestAtOnce(t *testing.T) {
	var done [100]atomic.Int32
	require.NoError(t, atOnce(t.Context(), len(done), func(i int) error { done[i].Add(1); return nil }))
	for i := range done {
		require.EqualValues(t, 1, done[i].Load())
	}
	var begun atomic.Int32
	err := atOnce(t.Context(), 1000, func(i int) error {
		begun.Add(1)
		return fmt.Errorf("number %d", i)
	})
	require.EqualError(t, err, "number 0")
	require.LessOrEqual(t, int(begun.Load()), runtime.GOMAXPROCS(0))
}
