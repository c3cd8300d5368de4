package reports_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/files"
	"psim/reports"
	"psim/results"
	"psim/results/compare"
)

// What is saved comes back, and files of another run are not taken for it.
func TestSaveAndLoad(t *testing.T) {
	ctx := context.Background()
	folder := filepath.Join(t.TempDir(), "out")
	trace := run(t, "gpipe", 2, 4, unit())
	saved := results.Run{Result: result(trace, nil), Trace: trace}
	names, err := reports.SaveRun(ctx, saved, reports.RunFolder(folder, results.Predicted))
	require.NoError(t, err)
	require.Equal(t, "result.json", names[len(names)-1])
	for _, path := range []string{folder, filepath.Join(folder, "result.json")} {
		loaded, err := results.Load(path)
		require.NoError(t, err)
		require.Equal(t, saved.Result.StepTime, loaded.Result.StepTime)
		require.Equal(t, trace.End(), loaded.Trace.End())
	}
	_, _, err = results.LoadPair(folder)
	require.ErrorContains(t, err, "is a prediction")
	a, b, err := results.LoadPair(folder, folder)
	require.NoError(t, err)
	require.Zero(t, compare.Compare(a, b).StepTimeDifference)

	saved.Result.StepTime *= 2
	render := func() { // a result beside another run's trace
		f, err := os.Create(filepath.Join(folder, "result.json"))
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, saved.Result.WriteJSON(f))
	}
	render()
	_, err = results.LoadResult(folder)
	require.ErrorContains(t, err, "result.json is not the one that psim wrote")
	require.NoError(t, os.Remove(filepath.Join(folder, files.Manifest))) // as an older psim left it
	_, err = results.Load(folder)
	require.ErrorContains(t, err, "they are not of the same run")
	require.NoError(t, os.Remove(filepath.Join(folder, "trace.csv")))
	loaded, err := results.Load(folder)
	require.NoError(t, err)
	require.Nil(t, loaded.Trace)
	require.False(t, loaded.Drawable())
}

// A run refuses a folder with files of the user's, and removes those of an earlier
// run that it does not write itself.
func TestFolders(t *testing.T) {
	ctx := context.Background()
	folder := t.TempDir()
	mine := filepath.Join(folder, "compare.png")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o644))
	require.ErrorContains(t, reports.ComparisonFolder(folder).Check(), "compare.png was not written by psim")
	require.NoError(t, os.Remove(mine))
	trace := run(t, "gpipe", 2, 4, unit())
	saved := results.Run{Result: result(trace, nil), Trace: trace}
	for _, picture := range []bool{true, false} {
		if !picture {
			saved.Trace = nil
		}
		names, err := reports.SaveComparison(ctx, reports.ComparisonFolder(folder), compare.Compare(saved, saved), [2]results.Run{saved, saved})
		require.NoError(t, err)
		require.Equal(t, picture, len(names) == 2)
		require.NoError(t, reports.ComparisonFolder(folder).Check())
	}
	require.NoFileExists(t, mine)
}
