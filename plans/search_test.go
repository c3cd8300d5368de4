package plans

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel/memory"
	"psim/results/rankings"
)

// small is GPT-2 on eight devices.
func small(t *testing.T, q Query, sets ...string) *Space {
	c, err := configs.Load("gpipe", sets...)
	require.NoError(t, err)
	q.Devices, q.Margin = 8, 0.1
	space, err := NewSpace(c, q)
	require.NoError(t, err)
	return space
}

// Every plan uses all devices and the whole batch, and there is one of each.
func TestSpace(t *testing.T) {
	space := small(t, Query{})
	seen := map[string]bool{}
	for _, p := range space.Plans {
		set := strings.Join(p.Set(), " ")
		require.False(t, seen[set], set)
		seen[set] = true
		require.Equal(t, 8, p.Data*p.Tensor*p.Stages, set)
		require.EqualValues(t, 32, int64(p.Data)*int64(p.Microbatches)*p.Micro, set)
		require.Equal(t, p.Stages == 1, p.Schedule == "ddp", set)
		require.False(t, p.Zero > 0 && p.Data == 1 || p.Zero == 3 && p.Stages > 1, set)
		require.Zero(t, 12%(p.Stages*p.VirtualStages)*(p.VirtualStages-1)*(14%(p.Stages*p.VirtualStages)), set)
	}
	require.Greater(t, len(seen), 500)
}

// Fixed keys keep the configuration's value and varied ones have those that are asked
// for; other keys become dimensions.
func TestSpaceAsked(t *testing.T) {
	space := small(t, Query{Fix: []string{"schedule.stages", "schedule.name"}, Vary: []rankings.Variation{{Key: "batch.micro", Values: []string{"2", "4"}}, {Key: "train.precision", Values: []string{"bf16", "fp16"}}}})
	precisions := map[string]int{}
	for _, p := range space.Plans {
		require.Equal(t, 4, p.Stages)
		require.Equal(t, "gpipe", p.Schedule)
		require.Contains(t, []int64{2, 4}, p.Micro)
		precisions[p.Extra[0]]++
	}
	require.Len(t, precisions, 2)
	require.Equal(t, precisions["train.precision=bf16"], precisions["train.precision=fp16"])
	require.Positive(t, precisions["train.precision=bf16"])
}

// A plan that cannot be wired is discarded, and ends no search.
func TestNotPossible(t *testing.T) {
	space := small(t, Query{Schedules: []string{"pipedream"}})
	require.NotEmpty(t, space.Plans)
	found, err := decideAll(context.Background(), space.Plans, searchOptions{Rows: 20})
	require.NoError(t, err)
	require.Empty(t, found.Best)
	for _, p := range found.Points {
		require.NotEmpty(t, p.Pruned)
		require.NotEqual(t, Slower, p.Pruned)
	}
}

// Work is no longer than the path, and that no longer than what a unit makes of it.
func TestBounds(t *testing.T) {
	space := small(t, Query{Vary: []rankings.Variation{{Key: "batch.micro", Values: []string{"2"}}}})
	s := &search{decisions: decisions{Points: make([]point, len(space.Plans))}}
	for _, d := range s.divide(space.Plans) {
		d.bound()
		for c := range d.candidates() {
			p := c.points[0]
			require.Positive(t, p.Work)
			way, pruned := c.pathBound()
			require.Empty(t, pruned)
			cut, err := p.cut()
			require.NoError(t, err)
			if lasting := cut.Lasting(); lasting != nil {
				d := cut.Divide()
				require.Equal(t, memory.Persistent(d.Workload, d.Shape.Ranks*max(1, d.Shape.Replicas))[:d.Shape.Ranks], lasting)
				whole, err := space.uncut(p.Plan)
				require.NoError(t, err)
				require.LessOrEqual(t, whole.Least(p.Stages, p.Data, p.Zero), slices.Max(lasting))
				require.Equal(t, p.Zero < 3, whole.Least(p.Stages, p.Data, p.Zero) > 0)
			}
			c.raise(way)
			require.GreaterOrEqual(t, p.Bound, p.Work)
			if u, path := newStageGroup(p.Plan), p.Bound; u.pruned == "" {
				p.Bound = 0
				c.raise(u.bounds)
				require.GreaterOrEqual(t, p.Bound, path, p.Set())
			}
		}
	}
}

// The best plans are the same whatever the number of workers.
func TestWorkersConcurrent(t *testing.T) {
	space := small(t, Query{Vary: []rankings.Variation{{Key: "batch.micro", Values: []string{"2"}}}})
	var first []string
	for _, workers := range []int{1, 2, 5} {
		found, err := decideAll(context.Background(), space.Plans, searchOptions{Rows: 7, Workers: workers})
		require.NoError(t, err)
		require.Zero(t, found.Gap)
		var sets []string
		for _, p := range found.Best {
			sets = append(sets, strings.Join(p.Set(), " "))
		}
		if first == nil {
			first = sets
		}
		require.Equal(t, first, sets)
	}
	require.Len(t, first, 7)
}

// What was found until an interrupt is kept, with how much better the best may be.
func TestInterrupted(t *testing.T) {
	space := small(t, Query{Trainer: Any})
	ctx, cancel := context.WithCancel(context.Background())
	found, err := decideAll(ctx, space.Plans, searchOptions{Rows: 20, Workers: 1, Progress: func(p Progress) {
		require.Less(t, p.Decided, p.Space)
		if p.Simulated == 3 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, found.Best, 3)
	lowest := time.Duration(forever)
	for _, p := range found.Points {
		if p.Pruned == "" && p.Step == 0 {
			lowest = min(lowest, p.Bound)
		}
	}
	// The search may know more of a plan than the bound that it notes.
	require.LessOrEqual(t, found.Gap, max(0, 1-float64(lowest)/float64(found.Best[0].Step)))

	cancelled, err := decideAll(ctx, space.Plans, searchOptions{Rows: 20})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, cancelled.Best)
	require.EqualValues(t, 1, cancelled.Gap)
}
