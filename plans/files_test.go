package plans_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim"
	"psim/plans"
	"psim/reports"
	"psim/results/rankings"
)

// saved searches a part of the plans for gpipe and writes it into a folder, after changes.
func saved(t *testing.T, folder string, q plans.Query, changes ...func(*rankings.SavedPlans)) {
	t.Helper()
	c, err := psim.Load("gpipe")
	require.NoError(t, err)
	found, err := plans.Search(context.Background(), c, q, nil)
	require.NoError(t, err)
	_, err = found.Saved(c, q, "test")
	require.ErrorContains(t, err, "set Points in the query")
	q.Points = true
	found, err = plans.Search(context.Background(), c, q, nil)
	require.NoError(t, err)
	s, err := found.Saved(c, q, "test")
	require.NoError(t, err)
	for _, change := range changes {
		change(&s)
	}
	_, err = plans.Save(context.Background(), s, reports.PlansFolder(folder, 20), nil)
	require.NoError(t, err)
}

// The title of a search without a plan that fits names the model and the devices, as others do.
func TestSubjectOfNothing(t *testing.T) {
	c, err := psim.Load("gpipe", "machine.compute.memory=100MB")
	require.NoError(t, err)
	q := few
	q.Points = true
	found, err := plans.Search(context.Background(), c, q, nil)
	require.NoError(t, err)
	require.Empty(t, found.Plans)
	s, err := found.Saved(c, q, "test")
	require.NoError(t, err)
	require.Equal(t, "GPT-2 124M on 4 A100", s.Subject)
}

// However a search is parted and in whatever order its parts are merged, the files are
// those of the whole.
func TestMergePlans(t *testing.T) {
	read := func(folder string) map[string]string {
		files := map[string]string{}
		for _, name := range []string{"plans.json", "points.csv", "search.json", "pareto.png", "map.png", "plan-1.toml"} {
			data, err := os.ReadFile(filepath.Join(folder, name))
			require.NoError(t, err)
			files[name] = string(data)
		}
		return files
	}
	temp, cases := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		if cases++; cases > 4 { // each takes a while
			return
		}
		q := few
		q.Schedules = []string{"ddp", "1f1b"}
		q.Rows = rapid.SampledFrom([]int{1, 5, 1000}).Draw(r, "rows")
		of := rapid.IntRange(1, 5).Draw(r, "of")
		folder := func(name string) string { return filepath.Join(temp, fmt.Sprint(cases), name) }
		saved(t, folder("whole"), q)
		var parts []string
		if rapid.Bool().Draw(r, "shared") {
			q.Shared = plans.Shared{Folder: folder("parts")}
		}
		for n := 1; n <= of; n++ {
			q.Shard = rankings.Shard{Number: n, Of: of}
			parts = append(parts, folder(q.Shard.Folder()))
			saved(t, parts[n-1], q)
		}
		merged, err := plans.Merge(context.Background(), rapid.Permutation(parts).Draw(r, "order")...)
		require.NoError(t, err)
		_, err = plans.Save(context.Background(), merged, reports.PlansFolder(folder("merged"), 20), nil)
		require.NoError(t, err)
		require.Equal(t, read(folder("whole")), read(folder("merged")))
		require.True(t, plans.Holds(parts))
	})
}

func TestMergePlansErrors(t *testing.T) {
	temp := t.TempDir()
	part := func(name string, q plans.Query) string {
		folder := filepath.Join(temp, name)
		saved(t, folder, q)
		return folder
	}
	q := few
	q.Schedules = []string{"ddp", "1f1b"}
	q.Rows, q.Shard = 2, rankings.Shard{Number: 1, Of: 2}
	first := part("first", q)
	again := part("again", q)
	q.Rows = 3
	other := part("other", q)
	_, err := plans.Merge(context.Background(), first)
	require.EqualError(t, err, "1 of 2 shards are missing\n  2/2")
	require.ErrorAs(t, err, new(*rankings.MissingPoints))
	_, err = plans.Merge(context.Background(), first, again)
	require.ErrorContains(t, err, again+": is shard 1/2, and so is "+first)
	_, err = plans.Merge(context.Background(), first, other)
	require.ErrorContains(t, err, other+": belongs to another search than "+first)
	_, err = plans.Merge(context.Background(), temp)
	require.ErrorContains(t, err, "holds no finished search")
	require.False(t, plans.Holds([]string{temp}))

	q.Rows, q.Shard = 2, rankings.Shard{Number: 2, Of: 2}
	old := filepath.Join(temp, "old")
	saved(t, old, q, func(s *rankings.SavedPlans) { s.Division = "" })
	_, err = plans.Merge(context.Background(), first, old)
	require.ErrorContains(t, err, old+": was divided by another version of psim than "+first)

	var s rankings.PlanSearch
	data, err := os.ReadFile(filepath.Join(first, "search.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &s))
	require.Equal(t, "1/2", s.Shard)
	require.NoError(t, os.WriteFile(filepath.Join(first, "points.csv"), []byte("x\n"), 0o644))
	_, err = plans.Merge(context.Background(), first)
	require.ErrorContains(t, err, "points.csv")
}
