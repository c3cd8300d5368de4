package published

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports/picture"
)

// replayed is all tables, replayed once for the tests that read them.
var replayed = sync.OnceValues(func() (Report, error) { return Replay(context.Background(), tables()) })

// replayedTable is one of them.
func replayedTable(t *testing.T, name string) StudyResult {
	t.Helper()
	r, err := replayed()
	require.NoError(t, err)
	i := slices.IndexFunc(r.Tables, func(table StudyResult) bool { return table.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return r.Tables[i]
}

// rowsOf lists the rows of a table, which have not been predicted.
func rowsOf(t *testing.T, of *Study) []row {
	t.Helper()
	rows, err := of.forms(t.Context(), &predictions{})
	require.NoError(t, err)
	return rows
}

// TestAccuracy compares docs/accuracy.md and its pictures with what make accuracy
// would write.
func TestAccuracy(t *testing.T) {
	r, err := replayed()
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, r.WriteMarkdown(&text, "accuracy"))
	saved, err := os.ReadFile("../docs/accuracy.md")
	require.NoError(t, err)
	require.Equal(t, string(saved), text.String(), "rewrite with: make accuracy")
	figures := r.Figures()
	for name, figure := range figures {
		var drawn bytes.Buffer
		require.NoError(t, picture.Scatter(&drawn, picture.PNG, figure))
		saved, err := os.ReadFile(filepath.Join("../docs/accuracy", name+".png"))
		require.NoError(t, err, "draw with: make accuracy")
		if runtime.GOARCH == "amd64" { // others round differently
			require.True(t, bytes.Equal(saved, drawn.Bytes()), "docs/accuracy/%s.png differs from what psim draws; rewrite with: make accuracy", name)
		}
	}
	pages := r.Pages(".")
	for _, page := range pages {
		saved, err := os.ReadFile(filepath.Join("../docs/accuracy", page.Name))
		require.NoError(t, err, "write with: make accuracy")
		require.Equal(t, string(saved), page.Text, "rewrite with: make accuracy")
	}
	files, err := os.ReadDir("../docs/accuracy")
	require.NoError(t, err)
	require.Len(t, files, len(figures)+len(pages), "a file of docs/accuracy is no longer made")
}

// residuals.csv of intervals holds the errors of leave_out.csv, one for each of its rows.
func TestResiduals(t *testing.T) {
	r, err := replayed()
	require.NoError(t, err)
	list := r.residuals()
	require.Len(t, list, len(records(leftRowsFile)))
	golden.Equal(t, "../../intervals/residuals.csv", list.CSV())
	// A rate that is predicted too high and a time that is predicted too low are both errors above 0.
	for name, sign := range map[string]float64{"llama3-405b-table-4": 1, "runs-torchtitan": -1} {
		var rows []record
		for _, of := range records(leftRowsFile) {
			if of.text("table") == name {
				rows = append(rows, of)
			}
		}
		for _, row := range list {
			if row.Table == name {
				want := sign * math.Log(rows[0].number("predicted")/rows[0].number("published"))
				require.InDelta(t, want, row.Log, 1e-12)
				rows = rows[1:]
			}
		}
		require.Empty(t, rows, name)
	}
}

// No error of a table, or of a stack on a device, is above its ceiling, be it the mean, the
// median or the worst. A ceiling is little more than the error when it was last lowered:
// lower it where predictions get better.
func TestCeilings(t *testing.T) {
	r, err := replayed()
	require.NoError(t, err)
	today := map[string][]float64{} // of every line of docs/accuracy.md: mean, median and worst
	for _, table := range r.Tables {
		today[table.Name] = []float64{table.MeanError, table.MedianError, table.WorstError}
	}
	groups := r.byStack()
	for _, g := range append(groups, together(groups)) {
		today[g.name()] = []float64{g.mean(), g.median(), g.worst()}
	}
	kinds := []string{"mean", "median", "worst"}
	ceilings := map[string][]float64{}
	for _, row := range records("ceilings.csv") {
		for _, kind := range kinds {
			ceilings[row.text("table")] = append(ceilings[row.text("table")], row.number(kind))
		}
	}
	require.Len(t, ceilings, len(today), "a ceiling is of nothing")
	for name, errors := range today {
		require.NotEmpty(t, ceilings[name], "%s: has no ceiling in testdata/ceilings.csv", name)
		for i, kind := range kinds {
			percent, ceiling := 100*errors[i], ceilings[name][i]
			assert.LessOrEqual(t, percent, ceiling, "%s: predictions got worse (%s error)", name, kind)
			assert.GreaterOrEqual(t, percent*1.5+0.1, ceiling, "%s: predictions got better (%s error); lower the ceiling", name, kind)
		}
	}
}

// What a constant stands on is what its fit says, on the chip that it was fitted on and on those that took it over.
func TestStanding(t *testing.T) {
	fits, err := stackFits()
	require.NoError(t, err)
	one := 0
	for _, f := range fits {
		sites, err := f.sites()
		require.NoError(t, err)
		for _, key := range f.Keys {
			text := Standing(f.Stack, f.Chip, key)
			require.Contains(t, text, fmt.Sprint(len(f.rows), " row"))
			require.Equal(t, sites == 1, strings.HasSuffix(text, ", one site"), text)
			if sites == 1 {
				one++
			}
			for _, chip := range f.Also {
				require.Equal(t, text, Standing(f.Stack, chip, key))
			}
			require.NotEmpty(t, Standing(f.Stack, "", key))
		}
	}
	require.Positive(t, one)
	require.Empty(t, Standing("megatron-te", "h100", "machine.spread"))
	require.Empty(t, Standing("none", "h100", "machine.compute.efficiency"))
}
