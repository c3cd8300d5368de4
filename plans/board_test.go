package plans

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/reports"
	"psim/results/rankings"
)

// A board holds the shortest steps of all shards, each once, whoever writes it in which order.
func TestBoard(t *testing.T) {
	folder := t.TempDir()
	c, err := configs.Load("gpipe")
	require.NoError(t, err)
	boardOf := func(shard int) *board {
		b, err := newBoard(c, Query{Rows: 3, Shard: rankings.Shard{Number: shard, Of: 4}, Shared: Shared{Folder: folder, Version: "1"}})
		require.NoError(t, err)
		return b
	}
	first, second := boardOf(1), boardOf(2)
	require.Equal(t, first.path, second.path)
	require.Zero(t, first.exchange([]knownStep{{10, 1, 0}, {30, 1, 7}}))
	require.Equal(t, 30*time.Nanosecond, second.exchange([]knownStep{{10, 2, 0}}))
	require.Equal(t, 20*time.Nanosecond, second.exchange([]knownStep{{10, 2, 0}, {20, 2, 1}}))
	require.Equal(t, 20*time.Nanosecond, first.exchange([]knownStep{{10, 1, 0}, {30, 1, 7}}))
	require.Equal(t, 20*time.Nanosecond, boardOf(2).exchange(nil), "a shard that was killed begins again")

	require.NoError(t, os.WriteFile(first.path, []byte(`[{"step_ns":1,"shard":3,"in`), 0o644))
	require.Equal(t, 20*time.Nanosecond, first.exchange(nil), "half a file says nothing")
	require.NoError(t, os.WriteFile(first.path, []byte(`[{"step_ns":0,"shard":3,"index":1}]`), 0o644))
	require.Equal(t, 20*time.Nanosecond, first.exchange(nil), "no step takes no time")
	require.Equal(t, 20*time.Nanosecond, boardOf(3).exchange(nil), "and the file is whole again")

	for _, q := range []Query{
		{Rows: 4, Shard: rankings.Shard{Number: 1, Of: 4}, Shared: Shared{Folder: folder, Version: "1"}},
		{Rows: 3, Shard: rankings.Shard{Number: 1, Of: 5}, Shared: Shared{Folder: folder, Version: "1"}},
		{Rows: 3, Shard: rankings.Shard{Number: 1, Of: 4}, Shared: Shared{Folder: folder, Version: "2"}},
		{Rows: 3, Shard: rankings.Shard{Number: 1, Of: 4}, Shared: Shared{Folder: folder, Version: "1"}, Margin: 0.1},
	} {
		b, err := newBoard(c, q)
		require.NoError(t, err)
		require.NotEqual(t, first.path, b.path)
	}
	b, err := newBoard(c, Query{Shard: rankings.Shard{Number: 1, Of: 1}, Shared: Shared{Folder: folder}})
	require.NoError(t, err)
	require.Nil(t, b, "one shard has nobody to share with")

	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.WriteFile(folder, nil, 0o644))
	require.Equal(t, 20*time.Nanosecond, first.exchange(nil), "a folder that is gone shares nothing")
}

// However shards write a board at once, whoever reads it finds a whole one, and at last all steps are there.
func TestBoardAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.json")
	var shards sync.WaitGroup
	var boards []*board
	for n := 1; n <= 8; n++ {
		b := &board{path: path, shard: n, rows: 100}
		boards = append(boards, b)
		shards.Go(func() {
			var own []knownStep
			for i := range 10 {
				own = append(own, knownStep{time.Duration(1 + n*10 + i), n, i})
				b.exchange(own)
				data, err := os.ReadFile(path)
				if err == nil {
					err = json.Unmarshal(data, new([]knownStep))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	shards.Wait()
	for _, b := range boards { // a step that another shard's file does not have comes back
		b.exchange(nil)
	}
	last := &board{path: path, rows: 80}
	require.Equal(t, time.Duration(1+80+9), last.exchange(nil))
}

// A merge refuses shards that left out plans because of steps that no shard has found.
func TestMergeOfWrongLimit(t *testing.T) {
	c, err := configs.Load("gpipe")
	require.NoError(t, err)
	q := Query{Devices: 8, Rows: 2, Points: true, Unpredicted: true, Schedules: []string{"1f1b"}, Shared: Shared{Folder: t.TempDir()}}
	q.Shard = rankings.Shard{Number: 1, Of: 2}
	b, err := newBoard(c, q)
	require.NoError(t, err)
	require.Zero(t, b.exchange([]knownStep{{time.Microsecond, 2, 0}}))
	require.Equal(t, 2*time.Microsecond, b.exchange([]knownStep{{2 * time.Microsecond, 2, 1}}))
	var parts []string
	for q.Shard.Number = 1; q.Shard.Number <= 2; q.Shard.Number++ {
		found, err := Search(context.Background(), c, q, nil)
		require.NoError(t, err)
		require.Empty(t, found.Plans)
		s, err := found.Saved(c, q, "test")
		require.NoError(t, err)
		require.Equal(t, int64(2000), s.Limit)
		parts = append(parts, filepath.Join(q.Shared.Folder, q.Shard.Folder()))
		_, err = Save(context.Background(), s, reports.PlansFolder(parts[q.Shard.Number-1], 2), nil)
		require.NoError(t, err)
	}
	_, err = Merge(context.Background(), parts...)
	require.ErrorIs(t, err, errOtherSteps)
}
