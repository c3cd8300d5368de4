package plans_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/plans"
	"psim/results/rankings"
)

// few are queries with few plans.
var few = plans.Query{Devices: 4, Margin: 0.1, Fix: []string{"batch.micro"}, Vary: []rankings.Variation{{Key: "parallel.zero", Values: []string{"0", "1"}}}}

func searchPlans(t *testing.T, name string, q plans.Query, sets ...string) *plans.Answer {
	t.Helper()
	c, err := psim.Load(name, sets...)
	require.NoError(t, err)
	found, err := plans.Search(context.Background(), c, q, nil)
	require.NoError(t, err)
	return found
}

// The settings of a plan give, over the configuration, what the search says of it.
func TestSearchPlansSets(t *testing.T) {
	found := searchPlans(t, "gpipe", few)
	require.Len(t, found.Plans, 20)
	require.Zero(t, found.Gap)
	require.Equal(t, found.Space, found.Evaluated+found.Pruned)
	for _, p := range found.Plans[:3] {
		c, err := psim.Load("gpipe", p.Set...)
		require.NoError(t, err)
		single, err := psim.Predict(context.Background(), c)
		require.NoError(t, err)
		require.Equal(t, single.Result, p.Result)
		require.Equal(t, 4, p.Plan.Data*p.Plan.Tensor*p.Plan.Stages)
		require.Equal(t, int64(4), p.Plan.Micro)
		require.Equal(t, p.Plan.Microbatches, p.Microbatches)
		require.Equal(t, p.Plan.VirtualStages, p.VirtualStages)
	}
	require.True(t, slices.IsSortedFunc(found.Plans, func(a, b rankings.RankedPlan) int {
		if a.StepTime != b.StepTime {
			return map[bool]int{true: -1, false: 1}[a.StepTime < b.StepTime]
		}
		return slices.Compare(a.Set, b.Set)
	}))
}

// Shards part the space, and the best of them together are the best of all.
func TestSearchPlansShards(t *testing.T) {
	whole := searchPlans(t, "gpipe", few)
	sets := map[string]bool{}
	space := 0
	for number := 1; number <= 3; number++ {
		part := few
		part.Shard = rankings.Shard{Number: number, Of: 3}
		found := searchPlans(t, "gpipe", part)
		space += found.Space
		for _, p := range found.Plans {
			require.False(t, sets[strings.Join(p.Set, " ")])
			sets[strings.Join(p.Set, " ")] = true
		}
	}
	require.Equal(t, whole.Space, space)
	for _, p := range whole.Plans {
		require.True(t, sets[strings.Join(p.Set, " ")])
	}
}

func TestSearchPlansErrors(t *testing.T) {
	c, err := psim.Load("gpipe")
	require.NoError(t, err)
	for want, q := range map[string]plans.Query{
		"0 devices":                      {},
		`unknown trainer "megatron"`:     {Devices: 4, Trainer: "megatron"},
		`unknown schedule "1f2b"`:        {Devices: 4, Schedules: []string{"1f2b"}},
		"schedule.stagse: is not a key":  {Devices: 4, Fix: []string{"schedule.stagse"}},
		"--fix parallel.zero and --vary": {Devices: 4, Fix: []string{"parallel.zero"}, Vary: few.Vary},
		`parallel.tensor: invalid value`: {Devices: 4, Vary: []rankings.Variation{{Key: "parallel.tensor", Values: []string{"x"}}}},
	} {
		_, err := plans.Search(context.Background(), c, q, nil)
		require.ErrorContains(t, err, want)
	}
	times, err := psim.Load("course-timeline")
	require.NoError(t, err)
	_, err = plans.Search(context.Background(), times, plans.Query{Devices: 4}, nil)
	require.ErrorContains(t, err, "course-timeline: plans for a number of devices need a [model]")
}

// Of an order with whole and split backwards, each is cut by its own times where the
// gradients of every microbatch leave bucket by bucket.
func TestCutBackwardsOfTwoKinds(t *testing.T) {
	var compute []time.Duration
	for _, zero := range []string{"1", "2"} {
		c, err := psim.Load("gpipe", "schedule.name=dualpipev", "schedule.stages=2", "parallel.data=2", "parallel.zero="+zero)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		require.NoError(t, err)
		for _, r := range p.Summary.Ranks {
			compute = append(compute, r.Compute)
		}
	}
	require.Equal(t, compute[:4], compute[4:])
}
