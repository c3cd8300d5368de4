package published

import (
	"bytes"
	"context"
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
	"psim/results/rankings"
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
	pictures, err := os.ReadDir("../docs/accuracy")
	require.NoError(t, err)
	require.Len(t, pictures, len(figures), "a picture of docs/accuracy is no longer drawn")
}

// stacks.csv holds the errors of every stack, for psim search.
func TestStacks(t *testing.T) {
	r, err := replayed()
	require.NoError(t, err)
	golden.Equal(t, "stacks.csv", r.stacksCSV())
	require.Zero(t, Accuracy("megatron-te", "t4", "fp16", false).Rows)
	a := Accuracy("nanotron", "h100-80gb-sxm", "bf16", false)
	require.Equal(t, 10, a.Rows)
	require.Greater(t, a.MeanError, 0.001)
	require.Zero(t, Accuracy("nanotron", "h100-80gb-sxm", "bf16", true).Rows, "dense runs say nothing of mixtures")
	require.Zero(t, Accuracy("nanotron", "h100-80gb-sxm", "fp16", false).Rows, "nor those of one precision of another")
	// Every published run that no constant was fitted to counts once, in the class of its own network.
	rows := map[rankings.StackAccuracy]int{}
	for _, table := range r.Tables {
		for _, row := range table.Replayed {
			if row.Stack != "" && !row.Used {
				device := strings.TrimSuffix(row.Device, " in "+row.Precision)
				rows[*Accuracy(row.Stack, device, row.Precision, row.Mixture)]++
			}
		}
	}
	for class, count := range rows {
		require.Equal(t, class.Rows, count)
	}
	dense := Accuracy("megatron-te", "h100-80gb-sxm", "bf16", false)
	experts := Accuracy("megatron-te", "h100-80gb-sxm", "bf16", true)
	require.NotEqual(t, dense.MeanError, experts.MeanError)
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
